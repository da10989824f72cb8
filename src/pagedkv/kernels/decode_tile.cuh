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

static __device__ __forceinline__ void multiply_keys(queries_t& q, const loaded_t& x, float (&s)[BANDS][4]) {
#pragma unroll
  for (int n = 0; n < BANDS; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) s[n][e] = 0;
#pragma unroll
  for (int c = 0; c < CHUNKS; ++c) {
    u32 k[2][4];
    x.key(0, c, k[0]);
    x.key(1, c, k[1]);
#pragma unroll
    for (int m = 0; m < EACH / 4; ++m) {
      const u32 a[4] = {neighbors(k[0], 2 * m), neighbors(k[1], 2 * m), neighbors(k[0], 2 * m + 1),
                        neighbors(k[1], 2 * m + 1)};
#pragma unroll
      for (int n = 0; n < BANDS; ++n)
{
        const uint2 two = q.at(n, c * (EACH / 4) + m);
        multiply(s[n], a, two.x, two.y);
      }
    }
  }
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

// Scores become weights, which go into p; what the warp has so far shrinks to the new maxima. Whether every query sees
// the whole tile.
static __device__ __forceinline__ bool weigh(const batch_t& b, const piece_t& piece, const tile_t& tile, u32 column,
                                             const queries_t& q, const weighing_t& given, float (&s)[BANDS][4],
                                             u32 (&p)[BANDS][2], const sums_t& all, warp_sums_t& own) {
  const bool full = is_full(b, piece, tile);
  bool live[2] = {true, true};
  if (!full)
#pragma unroll
    for (int t = 0; t < 2; ++t) live[t] = is_live(b, piece, tile, t, {piece.span.first, piece.span.stop});
  float factors[2] = {1, 1}, gains[2] = {0, 0};
#if SCALES
  // Scales of values go into weights, which are kept within float16 by counting them in with the maxima.
  float v_scales[2];
#pragma unroll
  for (int t = 0; t < 2; ++t) {
    factors[t] = given.k_scale[t];
    v_scales[t] = live[t] ? given.v_scale[t] : 0;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(gains[t]) : "f"(fmaxf(fabsf(v_scales[t]), 1e-30f)));
  }
#endif
  (void)given;
#pragma unroll
  for (int n = 0; n < BANDS; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      float x = s[n][e] * (float)b.score_scale;
      if (SCALES) x *= factors[e / 2];
      if (EVENED) x *= q.unit(n, e % 2);
      s[n][e] = full || live[e / 2] ? score_of(b, x) : NEVER;
    }
  (void)all;
#if DRAFTS
    if (!full)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const u32 j = token_of_column(b, column + n * 8 + 2 * (threadIdx.x % 4) + e % 2);
        if (!is_live(b, piece, tile, e / 2, seen_by(b, j, all.length, all.start))) s[n][e] = NEVER;
      }
#endif
    float shrink[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float largest = SCALES ? fmaxf(s[n][h] + gains[0], s[n][h + 2] + gains[1]) : fmaxf(s[n][h], s[n][h + 2]);
#pragma unroll
      for (int step = 4; step < 32; step *= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, step));
      largest = fmaxf(largest, own.maxima[n][h]);
      // Where nothing was live yet, NEVER - NEVER would be no number.
      const float base = largest == NEVER ? 0 : largest;
      shrink[h] = power(own.maxima[n][h] - base);
      own.maxima[n][h] = largest;
      s[n][h] = power(s[n][h] - base);
      s[n][h + 2] = power(s[n][h + 2] - base);
      own.weights[n][h] = own.weights[n][h] * shrink[h] + (s[n][h] + s[n][h + 2]);
    }
#if SCALES
#pragma unroll
    for (int e = 0; e < 4; ++e) s[n][e] *= v_scales[e / 2];
#endif
    p[n][0] = turned(s[n][0], s[n][1]);
    p[n][1] = turned(s[n][2], s[n][3]);
    if (__any_sync(~0u, shrink[0] != 1 || shrink[1] != 1)) {
#pragma unroll
      for (int m = 0; m < HEAD_DIM / 16; ++m)
#pragma unroll
        for (int e = 0; e < 4; ++e) own.sums[n][m][e] *= shrink[e % 2];
    }
  }
  return full;
}

// Fragment m of V^T within what a load brings of four tokens; bits that are not in `kept` are cleared.
static __device__ __forceinline__ void fragment_of(const u32 (&v)[4][WORDS], int m, const u32 (&kept)[4], u32 (&a)[4]) {
  const int word = m / (EACH / 8);
  across(v[0][word] & kept[0], v[1][word] & kept[1], m, a[0], a[1]);
  across(v[2][word] & kept[2], v[3][word] & kept[3], m, a[2], a[3]);
}

#if DRAFTS
// Where queries see different tokens, one query token at a time: a weight of 0 does not silence a NaN that only another
// query sees.
static __device__ __forceinline__ void add_values_by_query(const batch_t& b, const piece_t& piece, const tile_t& tile,
                                                           u32 column, const u32 (&p)[BANDS][2], const loaded_t& x,
                                                           const sums_t& all, warp_sums_t& own) {
#pragma unroll 1
  for (u32 j = 0; j < (u32)b.tokens; ++j) {
    const seen_t seen = seen_by(b, j, all.length, all.start);
    u32 kept[4], mine = 0;  // bit 2 n + h: that column is one of query token j
#pragma unroll
    for (int at = 0; at < BANDS * 2; ++at) {
      const u32 behind = column + at / 2 * 8 + 2 * (threadIdx.x % 4) + at % 2 - j * (u32)b.group;
      mine |= (behind < b.group ? 1u : 0u) << at;
    }
#pragma unroll
    for (int t = 0; t < 4; ++t) kept[t] = is_live(b, piece, tile, t + 2, seen) ? ~0u : 0;
#pragma unroll
    for (int h = 0; h < LOADS; ++h) {
      u32 v[4][WORDS];
#pragma unroll
      for (int t = 0; t < 4; ++t) x.value(t, h, v[t]);
#pragma unroll
      for (int m = 0; m < OF_LOAD / 2; ++m) {
        u32 a[4];
        fragment_of(v, m, kept, a);
#pragma unroll
        for (int n = 0; n < BANDS; ++n) {
          float fresh[4] = {};
          multiply(fresh, a, p[n][0], p[n][1]);
#pragma unroll
          for (int e = 0; e < 4; ++e)
            if (mine >> (2 * n + e % 2) & 1) own.sums[n][h * (OF_LOAD / 2) + m][e] += fresh[e];
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
  }
#endif
  const u32 kept[4] = {~0u, ~0u, ~0u, ~0u};
#pragma unroll
  for (int h = 0; h < LOADS; ++h) {
    u32 v[4][WORDS];
#pragma unroll
    for (int t = 0; t < 4; ++t) x.value(t, h, v[t]);
#pragma unroll
    for (int m = 0; m < OF_LOAD / 2; ++m) {
      u32 a[4];
      fragment_of(v, m, kept, a);
#pragma unroll
      for (int n = 0; n < BANDS; ++n) multiply(own.sums[n][h * (OF_LOAD / 2) + m], a, p[n][0], p[n][1]);
    }
  }
}
