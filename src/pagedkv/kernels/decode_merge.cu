// Merges what decode_attention or decode_tensor left of each sequence that several shares have a piece of, in the order
// of the shares. decode_shares.cuh says where the pieces are.
//
// A line of the workspace holds the sums [HEAD_DIM], the maximum and the weight of a piece for one query head of one
// query token. Grid: (kv_heads, shares, query tokens * group / 4 rounded up) CTAs of 128 threads, a warp a line; those of
// a share in which no such sequence begins do nothing. Macros: HEAD_DIM, QUERY (dtypes.DType.number).

#define COLUMNS 1
#define GROUPS 1
#define PARTS 1
#define CAP 0
#define LOG2_BLOCK -1
#include "number_formats.cuh"
#include "decode_pieces.cuh"

#define EACH (HEAD_DIM / 32)  // neighboring dims of a lane

// What a lane has of a line.
struct part_t {
  float end[2];  // maximum and weight
  float sums[EACH];
};

// Volatile: all are asked for before one is waited for.
template <int COUNT>
static __device__ __forceinline__ void fetch(const float* from, float (&to)[COUNT]) {
  if constexpr (COUNT == 2)
    asm volatile("ld.global.v2.f32 {%0, %1}, [%2];" : "=f"(to[0]), "=f"(to[1]) : "l"(from));
  else
#pragma unroll
    for (int e = 0; e < COUNT; e += 4)
      asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];"
                   : "=f"(to[e]), "=f"(to[e + 1]), "=f"(to[e + 2]), "=f"(to[e + 3])
                   : "l"(from + e));
}

extern "C" __global__ void __launch_bounds__(WARPS * 32, 6) decode_merge(batch_t b) {
  constexpr u32 AT_ONCE = EACH < 8 ? 8 : 4;  // lines under way: each is far away
  await_pieces();
  const int2 mark = ((const int2*)b.marks)[blockIdx.y];
  const u32 kv_head = blockIdx.x, column = blockIdx.z * WARPS + threadIdx.x / 32;
  if (mark.x < 0 || column >= columns_of(b)) return;
  const u32 pieces = (u32)mark.y - blockIdx.y + 1;
  const u64 first = line_of(b, 2 * (u64)blockIdx.y + 1, kv_head, column);
  const u64 other = line_of(b, 2 * (u64)blockIdx.y, kv_head, column);
  const u64 apart = 2 * b.kv_heads * columns_of(b);  // piece s is s * apart behind `other`
  float largest = NEVER, weight = 0, sums[EACH] = {};
  for (u32 from = 0; from < pieces; from += AT_ONCE) {
    part_t parts[AT_ONCE];
#pragma unroll
    for (u32 n = 0; n < AT_ONCE; ++n) {
      const u32 s = min(from + n, pieces - 1);
      const u64 line = s == 0 ? first : other + s * apart;
      fetch(b.weights + line * 2, parts[n].end);
      fetch(b.sums + line * HEAD_DIM + threadIdx.x % 32 * EACH, parts[n].sums);
    }
    const float before = largest;
#pragma unroll
    for (u32 n = 0; n < AT_ONCE; ++n) largest = fmaxf(largest, parts[n].end[0]);
    const float base = largest == NEVER ? 0 : largest, shrink = power(before - base);
    weight *= shrink;
#pragma unroll
    for (int e = 0; e < EACH; ++e) sums[e] *= shrink;
#pragma unroll
    for (u32 n = 0; n < AT_ONCE; ++n) {
      const bool there = from + n < pieces;
      const float share = power(parts[n].end[0] - base);
      weight += there ? parts[n].end[1] * share : 0;
#pragma unroll
      for (int e = 0; e < EACH; ++e) sums[e] += there ? parts[n].sums[e] * share : 0;
    }
  }
  const float factor = result_of(b, 1, weight);
  element* const to = out_of(b, mark.x, kv_head, column) + threadIdx.x % 32 * EACH;
#pragma unroll
  for (int e = 0; e < EACH; ++e) put(to + e, weight == 0 ? 0 : sums[e] * factor);
}
