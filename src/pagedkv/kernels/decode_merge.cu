// Merges what decode_attention or decode_tensor left of each piece of a sequence, in the order of the pieces.
//
// Line q * splits + s holds the sums [HEAD_DIM], the maximum and the weight of piece s for query head q of the batch;
// an empty piece has weight 0. Grid: (n * q_heads) CTAs of HEAD_DIM threads. Macros: HEAD_DIM, QUERY
// (dtypes.DType.number).

#define HEADS 1
#define PARTS 1
#include "number_formats.cuh"
#include "decode_pieces.cuh"

extern "C" __global__ void __launch_bounds__(HEAD_DIM)
    decode_merge(const float* sums, const float* weights, u32 splits, u32 q_heads, element* out, i64 out_stride,
                 i64 out_head_stride, float value_scale) {
  const u64 line = (u64)blockIdx.x * splits;
  const float2* pieces = (const float2*)weights + line;
  float largest = NEVER, weight = 0, sum = 0;
#pragma unroll 8
  for (u32 s = 0; s < splits; ++s) largest = fmaxf(largest, pieces[s].x);
  const float base = largest == NEVER ? 0 : largest;
#pragma unroll 8
  for (u32 s = 0; s < splits; ++s) {
    const float share = power(pieces[s].x - base);
    weight += pieces[s].y * share;
    sum += sums[(line + s) * HEAD_DIM + threadIdx.x] * share;
  }
  const u32 i = blockIdx.x / q_heads, head = blockIdx.x - i * q_heads;
  const float mean = weight == 0 ? 0 : sum / weight;
  put(out + (i64)i * out_stride + (i64)head * out_head_stride + threadIdx.x, mean * value_scale);
}
