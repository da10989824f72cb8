// softmax(q K^T) V for one query token a sequence, over the blocks that a table names: any format, in float32.
//
// A CTA takes one sequence, one KV head with up to HEADS of its query heads, and one of `splits` pieces of the tokens;
// it ends with the result in `out`, or with a piece's sums, maximum and weight in the workspace for decode_merge.cu.
// HEAD_DIM / 4 lanes share a token; whoever keeps sums of its own has them added in a fixed order: the same inputs give
// the same bits.
// No table entry at or beyond `width` is read; an id outside the pool is not followed; what is masked is never added,
// whatever its bytes are. Everything read is on the device, so the launch may be captured into a graph and replayed.
// Grid: (n * kv_heads, splits, ceil(query heads a KV head / HEADS)) CTAs of 128 threads. Macros: HEAD_DIM (64, 128),
// HEADS (1, 2, 4, 8), QUERY and STORED (dtypes.DType.number), SCALES (1: one a token and head), CTAS (an SM).

#define LANES (HEAD_DIM / 4)
#define PARTS (32 / LANES)
#include "number_formats.cuh"
#include "decode_pieces.cuh"

#define STEP 4  // tokens that a thread has in flight

static __device__ __forceinline__ void load4(const char* row, u32 lane, float (&values)[4]) {
  unpack<STORED, 4>(load<4 * Format<STORED>::BYTES>(row + lane * 4 * Format<STORED>::BYTES), values);
}

static __device__ __forceinline__ void sum_up(const batch_t& b, const piece_t& piece, u32 i, u32 kv_head, sums_t& all) {
  const u32 lane = threadIdx.x % LANES, state = threadIdx.x / LANES;
  float q[HEADS][4], sums[HEADS][4] = {}, maxima[HEADS], weights[HEADS] = {};
#pragma unroll
  for (int h = 0; h < HEADS; ++h) {
    const u64 head = first_head() + h;
    const element* from = b.queries + (i64)i * b.query_stride + (i64)(kv_head * b.group + head) * b.query_head_stride;
    maxima[h] = NEVER;
#pragma unroll
    for (int e = 0; e < 4; ++e) q[h][e] = head < b.group ? decode<QUERY>(from[lane * 4 + e]) * (float)b.score_scale : 0;
  }
  const u32 first = piece.begin + state / PARTS * PARTS * STEP;
  for (u32 base = first; base < piece.end; base += STATES * STEP) {
    float k[STEP][4] = {}, v[STEP][4] = {};
    bool live[STEP];
#pragma unroll
    for (int t = 0; t < STEP; ++t) {
      const u32 position = base + state % PARTS * STEP + t;
      live[t] = position >= piece.first && position < piece.end;
      if (!live[t]) continue;
      const int id = piece.entries[column_of(b, position)];
      u64 offset;
      live[t] = find(b, id, position, offset);
      if (!live[t]) continue;
      load4(b.k + kv_head * b.head_stride + offset, lane, k[t]);
      load4(b.v + kv_head * b.head_stride + offset, lane, v[t]);
#if SCALES
      const u64 at = (u64)id * b.scale_block_stride + place_of(b, position) * b.scale_token_stride +
                     kv_head * b.scale_head_stride;
      const float k_scale = *(const float*)(b.k_scales + at), v_scale = *(const float*)(b.v_scales + at);
#pragma unroll
      for (int e = 0; e < 4; ++e) k[t][e] *= k_scale, v[t][e] *= v_scale;
#endif
    }
#pragma unroll
    for (int h = 0; h < HEADS; ++h) {
      float s[STEP], largest = maxima[h];
#pragma unroll
      for (int t = 0; t < STEP; ++t)
        s[t] = q[h][0] * k[t][0] + q[h][1] * k[t][1] + q[h][2] * k[t][2] + q[h][3] * k[t][3];
#pragma unroll
      for (int step = LANES / 2; step > 0; step /= 2)
#pragma unroll
        for (int t = 0; t < STEP; ++t) s[t] += __shfl_xor_sync(~0u, s[t], step);
#pragma unroll
      for (int t = 0; t < STEP; ++t) {
        s[t] = live[t] ? s[t] : NEVER;
        largest = fmaxf(largest, s[t]);
      }
      const float base_score = largest == NEVER ? 0 : largest;
      const float shrink = power(maxima[h] - base_score);
      maxima[h] = largest;
      weights[h] *= shrink;
#pragma unroll
      for (int e = 0; e < 4; ++e) sums[h][e] *= shrink;
#pragma unroll
      for (int t = 0; t < STEP; ++t) {
        const float p = power(s[t] - base_score);
        weights[h] += p;
#pragma unroll
        for (int e = 0; e < 4; ++e) sums[h][e] += p * v[t][e];
      }
    }
  }
#pragma unroll
  for (int h = 0; h < HEADS; ++h) {
    if (lane == 0) all.maxima[state][h] = maxima[h], all.weights[state][h] = weights[h];
#pragma unroll
    for (int e = 0; e < 4; ++e) all.sums[state][h][lane * 4 + e] = sums[h][e];
  }
}

extern "C" __global__ void __launch_bounds__(WARPS * 32, CTAS) decode_attention(batch_t b) {
  __shared__ sums_t all;
  const u32 i = blockIdx.x / (u32)b.kv_heads, kv_head = blockIdx.x - i * (u32)b.kv_heads;
  const piece_t piece = piece_of(b, i, blockIdx.y, gridDim.y);
  sum_up(b, piece, i, kv_head, all);
  __syncthreads();
  finish(b, i, kv_head, all);
}
