// The products of one tile of decode_tensor.cu: with keys, and of weights with values. Behind decode_weights.cuh.

// Fragments that ldmatrix loads at a time: one after another they would each be waited for.
#define AT_ONCE (LADDER ? (COLUMNS > 16 ? 4 : HEAD_DIM < 128 ? 4 : 8) : OF_LOAD / 2)

// Fragments c to c + COUNT - 1 of K.
template <int COUNT>
static __device__ __forceinline__ void key_fragments(const loaded_t& x, int c, u32 (&a)[COUNT][4]) {
#pragma unroll
  for (int i = 0; i < COUNT; ++i) {
#if LADDER
    x.key_fragment(c + i, a[i]);
#else
    u32 k[2][4];
    x.key(0, (c + i) / (EACH / 4), k[0]);
    x.key(1, (c + i) / (EACH / 4), k[1]);
#pragma unroll
    for (int e = 0; e < 4; ++e) a[i][e] = neighbors(k[e % 2], 2 * ((c + i) % (EACH / 4)) + e / 2);
#endif
  }
}

// One column fragment's products are added up in two chains, which take half of the time of one.
#define TWO_CHAINS (BANDS == 1 && HEAD_DIM < 256)

// S^T = K Q^T.
static __device__ __forceinline__ void multiply_keys(queries_t& q, const loaded_t& x, float (&s)[BANDS][4]) {
  constexpr int COUNT = LADDER ? AT_ONCE : 2;
  float other[BANDS][4];
#pragma unroll
  for (int n = 0; n < BANDS; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) s[n][e] = other[n][e] = 0;
#pragma unroll
  for (int c = 0; c < HEAD_DIM / 16; c += COUNT) {
    u32 a[COUNT][4];
    key_fragments(x, c, a);
#pragma unroll
    for (int i = 0; i < COUNT; i += 2)
#pragma unroll
      for (int n = 0; n < BANDS; ++n) {
        const uint4 two = q.two(n, c + i);
        multiply(s[n], a[i], two.x, two.y);
        multiply(TWO_CHAINS ? other[n] : s[n], a[i + 1], two.z, two.w);
      }
  }
  if (TWO_CHAINS)
#pragma unroll
    for (int e = 0; e < 4; ++e) s[0][e] += other[0][e];
}

// V of a tile, AT_ONCE fragments of V^T at a time.
struct values_t {
#if LADDER
  u32 v[AT_ONCE][4];
#else
  u32 words[4][WORDS];
#endif

  __device__ __forceinline__ void load(const loaded_t& x, int h) {
#if LADDER
#pragma unroll
    for (int m = 0; m < AT_ONCE; ++m) x.value_fragment(h * AT_ONCE + m, v[m]);
#else
#pragma unroll
    for (int t = 0; t < 4; ++t) x.value(t, h, words[t]);
#endif
  }
  __device__ __forceinline__ void fragment(int m, u32 (&a)[4]) const {
#if LADDER
#pragma unroll
    for (int e = 0; e < 4; ++e) a[e] = v[m][e];
#else
    across(words[0][m / (EACH / 8)], words[1][m / (EACH / 8)], m, a[0], a[1]);
    across(words[2][m / (EACH / 8)], words[3][m / (EACH / 8)], m, a[2], a[3]);
#endif
  }
};

#if DRAFTS
// Where queries see different tokens, one query token at a time: a weight of 0 does not silence a NaN that only another
// query sees.
static __device__ __forceinline__ void add_values_by_query(const batch_t& b, const piece_t& piece, const tile_t& tile,
                                                           u32 column, const u32 (&p)[BANDS][2], const loaded_t& x,
                                                           const sums_t& all, warp_sums_t& own) {
#pragma unroll 1
  for (u32 j = 0; j < (u32)b.tokens; ++j) {
    const seen_t seen = seen_by(b, j, all.length, all.start);
    u32 kept[2] = {0, 0};  // the halves of a word that are of tokens it sees
    u32 mine = 0;          // bit 2 n + h: that column is one of query token j
#pragma unroll
    for (int at = 0; at < BANDS * 2; ++at) {
      const u32 behind = column + at / 2 * 8 + 2 * (threadIdx.x % 4) + at % 2 - j * (u32)b.group;
      mine |= (behind < b.group ? 1u : 0u) << at;
    }
#pragma unroll
    for (int t = 0; t < 4; ++t) kept[t / 2] |= is_live(b, piece, tile, t + 2, seen) ? 0xffffu << t % 2 * 16 : 0;
#pragma unroll
    for (int h = 0; h < HEAD_DIM / 16 / AT_ONCE; ++h) {
      values_t v;
      v.load(x, h);
#pragma unroll
      for (int m = 0; m < AT_ONCE; ++m) {
        u32 a[4];
        v.fragment(m, a);
#pragma unroll
        for (int e = 0; e < 4; ++e) a[e] &= kept[e / 2];
#pragma unroll
        for (int n = 0; n < BANDS; ++n) {
          float fresh[4] = {};
          multiply(fresh, a, p[n][0], p[n][1]);
#pragma unroll
          for (int e = 0; e < 4; ++e)
            if (mine >> (2 * n + e % 2) & 1) own.sums[n][h * AT_ONCE + m][e] += fresh[e];
        }
      }
    }
  }
}
#endif

// O^T += V^T P^T.
static __device__ __forceinline__ void add_values(const batch_t& b, const piece_t& piece, const tile_t& tile, u32 column,
                                                  bool full, const u32 (&p)[BANDS][2], loaded_t& x, const sums_t& all,
                                                  warp_sums_t& own) {
#if DRAFTS
  if (!full) return add_values_by_query(b, piece, tile, column, p, x, all, own);
#else
  (void)column, (void)all;
  if (!full) {  // a weight of 0 does not silence a NaN
#pragma unroll
    for (int t = 0; t < 4; ++t)
      if (!is_live(b, piece, tile, t + 2, {piece.span.first, piece.span.stop}))
#pragma unroll
        for (int h = 0; h < LOADS; ++h) x.clear_value(t, h);
    if (STAGES) __syncwarp();
  }
#endif
#pragma unroll
  for (int h = 0; h < HEAD_DIM / 16 / AT_ONCE; ++h) {
    values_t v;
    v.load(x, h);
#pragma unroll
    for (int m = 0; m < AT_ONCE; ++m) {
      u32 a[4];
      v.fragment(m, a);
#pragma unroll
      for (int n = 0; n < BANDS; ++n) multiply(own.sums[n][h * AT_ONCE + m], a, p[n][0], p[n][1]);
    }
  }
}
