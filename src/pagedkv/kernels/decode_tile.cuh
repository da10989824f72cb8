// One tile of decode_tensor.cu: scores, weights, and the values they add.

// What of a tile's scales is used once its keys are gone.
struct weighing_t {
#if SCALES
  float k_scale[2], v_scale[2];
#endif
};

static __device__ __forceinline__ weighing_t weighing_of(const loaded_t& x) {
  weighing_t given;
#if SCALES
#pragma unroll
  for (int p = 0; p < 2; ++p) given.k_scale[p] = x.scale(p), given.v_scale[p] = x.scale(2 + p);
#endif
  return given;
}

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

// Whether every query sees all 16 tokens.
static __device__ __forceinline__ bool is_full(const batch_t& b, const piece_t& piece, const tile_t& tile) {
  const u32 behind = tile.at + TILE;
  const bool seen = tile.at >= piece.span.all_first && behind <= piece.span.all_stop && behind <= piece.end;
  if (WHOLE) return seen && (u32)tile.ids[0] < b.blocks;
  bool there = seen;
#pragma unroll
  for (int place = 0; place < PLACES; ++place) there = there && (u32)tile.ids[place] < b.blocks;
  return __all_sync(~0u, there);
}

// Weights are powers of 2 of how far scores are above a column's maximum of an earlier tile. That need not be the largest
// of all while none is above it by more than this, so that maxima are seldom looked for. More of it costs digits: the
// largest weight is no longer 1, which a 16-bit format holds exactly.
#define SLACK 2

// Bit 4 n + e: what a query does not see.
static __device__ __forceinline__ u32 hidden_of(const batch_t& b, const piece_t& piece, const tile_t& tile, u32 column,
                                                const sums_t& all) {
  (void)column, (void)all;
  u32 hidden = 0;
#pragma unroll
  for (int t = 0; t < 2; ++t) {
    const bool live = is_live(b, piece, tile, t, {piece.span.first, piece.span.stop});
#pragma unroll
    for (int n = 0; n < BANDS; ++n)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        bool seen = live;
#if DRAFTS
        const u32 j = token_of_column(b, column + n * 8 + 2 * (threadIdx.x % 4) + h);
        seen = seen && is_live(b, piece, tile, t, seen_by(b, j, all.length, all.start));
#endif
        hidden |= (seen ? 0u : 1u) << (4 * n + 2 * t + h);
      }
  }
  return hidden;
}

static __device__ __forceinline__ void hide(u32 hidden, float (&s)[BANDS][4]) {
#pragma unroll
  for (int n = 0; n < BANDS; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) s[n][e] = hidden >> (4 * n + e) & 1 ? NEVER : s[n][e];
}

// Lifts maxima to the largest scores, each counted with its gain, and shrinks what the warp has so far.
static __device__ __forceinline__ void lift(const float (&scores)[BANDS][4], const float (&gains)[2], warp_sums_t& own) {
#pragma unroll
  for (int n = 0; n < BANDS; ++n) {
    float shrink[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float largest = fmaxf(scores[n][h] + gains[0], scores[n][h + 2] + gains[1]);
#pragma unroll
      for (int step = 4; step < 32; step *= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, step));
      largest = fmaxf(largest, own.maxima[n][h]);
      shrink[h] = power(own.maxima[n][h] - largest);
      own.maxima[n][h] = largest;
      own.weights[n][h] *= shrink[h];
    }
#pragma unroll
    for (int m = 0; m < HEAD_DIM / 16; ++m)
#pragma unroll
      for (int e = 0; e < 4; ++e) own.sums[n][m][e] *= shrink[e % 2];
  }
}

// Products become weights, which go into p. Whether every query sees the whole tile.
static __device__ __forceinline__ bool weigh(const batch_t& b, const piece_t& piece, const tile_t& tile, u32 column,
                                             const queries_t& q, const weighing_t& given, const float (&s)[BANDS][4],
                                             u32 (&p)[BANDS][2], const sums_t& all, warp_sums_t& own) {
  const bool full = is_full(b, piece, tile);
  const u32 hidden = full ? 0 : hidden_of(b, piece, tile, column, all);
  float gains[2] = {0, 0};
#if SCALES
  // Scales of values go into weights, which are kept within float16 by counting them in with the maxima.
  float v_scales[2];
#pragma unroll
  for (int t = 0; t < 2; ++t) {
    v_scales[t] = full || is_live(b, piece, tile, t, {piece.span.first, piece.span.stop}) ? given.v_scale[t] : 0;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(gains[t]) : "f"(fmaxf(fabsf(v_scales[t]), 1e-30f)));
  }
#endif
  const auto score = [&](int n, int e) {
    float x = s[n][e] * b.score_scale;
#if SCALES
    x *= given.k_scale[e / 2];
#endif
    if (EVENED) x *= q.unit(n, e % 2);
    return score_of(b, x);
  };
  (void)given, (void)q;
  float above[BANDS][4];  // the maximum
#pragma unroll
  for (int n = 0; n < BANDS; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) above[n][e] = score(n, e) - own.maxima[n][e % 2];
  if (!full) hide(hidden, above);
  float most = NEVER;
#pragma unroll
  for (int n = 0; n < BANDS; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) most = fmaxf(most, SCALES ? above[n][e] + gains[e / 2] : above[n][e]);
  if (__any_sync(~0u, most > SLACK)) {
#pragma unroll
    for (int n = 0; n < BANDS; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) above[n][e] = score(n, e);
    if (!full) hide(hidden, above);
    lift(above, gains, own);
#pragma unroll
    for (int n = 0; n < BANDS; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) above[n][e] -= own.maxima[n][e % 2];
  }
#pragma unroll
  for (int n = 0; n < BANDS; ++n)
#pragma unroll
    for (int t = 0; t < 2; ++t) {
      float2 w = make_float2(power(above[n][2 * t]), power(above[n][2 * t + 1]));
#if SCALES
      own.weights[n][0] += w.x, own.weights[n][1] += w.y;
      w.x *= v_scales[t], w.y *= v_scales[t];
      const u32 both = packed(w.x, w.y);
#else
      // As they are multiplied: what rounding adds to a sum, it adds to the sum of weights too.
      const u32 both = packed(w.x, w.y);
      w = unpacked(both);
      own.weights[n][0] += w.x, own.weights[n][1] += w.y;
#endif
      p[n][t] = turned(both);
    }
  return full;
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
