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
#include "decode_pieces.cuh"

#define STEP 4  // tokens that a thread has in flight

template <int KIND>
static __device__ __forceinline__ float small(u32 bits) {
  if (KIND == 5) return (float)(signed char)bits;
  if (KIND == 4) return half_to_float((u16)(bits << 8));
  // e4m3 has 4 bits of exponent where float16 has 5: 2^8 lies between their biases; it has no infinity, one NaN.
  if ((bits & 0x7f) == 0x7f) return __int_as_float(0x7fffffff);
  return half_to_float((u16)((bits & 0x80) << 8 | (bits & 0x7f) << 7)) * 256;
}

__device__ __forceinline__ float4 scaled(float4 x, float scale) {
  return make_float4(x.x * scale, x.y * scale, x.z * scale, x.w * scale);
}

template <int KIND>
static __device__ __forceinline__ float4 load4(const char* row, u32 lane) {
  if (KIND == 0) return ((const float4*)row)[lane];
  if (KIND <= 2) {
    const uint2 x = ((const uint2*)row)[lane];
    if (KIND == 1)
      return make_float4(half_to_float((u16)x.x), half_to_float(x.x >> 16), half_to_float((u16)x.y),
                         half_to_float(x.y >> 16));
    return make_float4(__int_as_float((int)(x.x << 16)), __int_as_float((int)(x.x & 0xffff0000u)),
                       __int_as_float((int)(x.y << 16)), __int_as_float((int)(x.y & 0xffff0000u)));
  }
  const u32 x = ((const u32*)row)[lane];
  return make_float4(small<KIND>(x & 0xff), small<KIND>(x >> 8 & 0xff), small<KIND>(x >> 16 & 0xff),
                     small<KIND>(x >> 24));
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
    for (int e = 0; e < 4; ++e) q[h][e] = head < b.group ? to_float(from[lane * 4 + e]) * (float)b.score_scale : 0;
  }
  const u32 first = piece.begin + state / PARTS * PARTS * STEP;
  for (u32 base = first; base < piece.end; base += STATES * STEP) {
    float4 k[STEP], v[STEP];
    bool live[STEP];
#pragma unroll
    for (int t = 0; t < STEP; ++t) {
      const u32 position = base + state % PARTS * STEP + t;
      k[t] = v[t] = make_float4(0, 0, 0, 0);
      live[t] = position >= piece.first && position < piece.end;
      if (!live[t]) continue;
      const int id = piece.entries[column_of(b, position)];
      u64 offset;
      live[t] = find(b, id, position, offset);
      if (!live[t]) continue;
      k[t] = load4<STORED>(b.k + kv_head * b.head_stride + offset, lane);
      v[t] = load4<STORED>(b.v + kv_head * b.head_stride + offset, lane);
#if SCALES
      const u64 at = (u64)id * b.scale_block_stride + place_of(b, position) * b.scale_token_stride +
                     kv_head * b.scale_head_stride;
      k[t] = scaled(k[t], *(const float*)(b.k_scales + at));
      v[t] = scaled(v[t], *(const float*)(b.v_scales + at));
#endif
    }
#pragma unroll
    for (int h = 0; h < HEADS; ++h) {
      float s[STEP], largest = maxima[h];
#pragma unroll
      for (int t = 0; t < STEP; ++t)
        s[t] = q[h][0] * k[t].x + q[h][1] * k[t].y + q[h][2] * k[t].z + q[h][3] * k[t].w;
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
        sums[h][0] += p * v[t].x;
        sums[h][1] += p * v[t].y;
        sums[h][2] += p * v[t].z;
        sums[h][3] += p * v[t].w;
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
