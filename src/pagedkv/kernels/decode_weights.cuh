// How a tile's products become weights: powers of 2 of scores above a maximum that lags behind. Behind decode_queries.cuh.

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
      // A weight of 0 does not silence a scale that only another query's token has.
      const u32 unseen = hidden >> (4 * n + 2 * t);
      w.x = unseen & 1 ? 0 : w.x * v_scales[t];
      w.y = unseen & 2 ? 0 : w.y * v_scales[t];
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
