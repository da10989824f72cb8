// Merges what decode_attention or decode_tensor left of each sequence that several shares have a piece of, in the order
// of the shares. decode_shares.cuh says where the pieces are.
//
// A line of the workspace holds the sums [HEAD_DIM], the maximum and the weight of a piece for one query head of one
// query token. Grid: (query heads * query tokens, shares) CTAs of HEAD_DIM threads; those of a share in which no such
// sequence begins do nothing. Macros: HEAD_DIM, QUERY (dtypes.DType.number).

#define COLUMNS 1
#define GROUPS 1
#define PARTS 1
#define CAP 0
#include "number_formats.cuh"
#include "decode_pieces.cuh"

extern "C" __global__ void __launch_bounds__(HEAD_DIM) decode_merge(batch_t b) {
  const int i = b.marks[2 * blockIdx.y];
  if (i < 0) return;
  const u32 kv_head = blockIdx.x / columns_of(b), column = blockIdx.x - kv_head * columns_of(b);
  const u32 pieces = (u32)b.marks[2 * blockIdx.y + 1] - blockIdx.y + 1;
  const u64 apart = 2 * b.kv_heads * columns_of(b);  // lines from a piece to the next, behind the first
  const u64 first = line_of(b, 2 * (u64)blockIdx.y + 1, kv_head, column);
  const u64 other = line_of(b, 2 * (u64)blockIdx.y, kv_head, column);  // piece s is s * apart behind this
  const float2* const ends = (const float2*)b.weights;
  float largest = ends[first].x;
#pragma unroll 8
  for (u32 s = 1; s < pieces; ++s) largest = fmaxf(largest, ends[other + s * apart].x);
  const float base = largest == NEVER ? 0 : largest;
  float share = power(ends[first].x - base);
  float weight = ends[first].y * share, sum = b.sums[first * HEAD_DIM + threadIdx.x] * share;
#pragma unroll 8
  for (u32 s = 1; s < pieces; ++s) {
    const u64 line = other + s * apart;
    share = power(ends[line].x - base);
    weight += ends[line].y * share;
    sum += b.sums[line * HEAD_DIM + threadIdx.x] * share;
  }
  const u32 j = token_of_column(b, column), head = kv_head * (u32)b.group + column - j * (u32)b.group;
  element* const to = b.out + (i64)i * b.out_stride + j * b.out_token_stride + (i64)head * b.out_head_stride;
  put(to + threadIdx.x, (weight == 0 ? 0 : sum / weight) * (float)b.value_scale);
}
