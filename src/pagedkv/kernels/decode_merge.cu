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

static __device__ __forceinline__ void add(const float* from, float share, float (&sums)[EACH]) {
  constexpr int MOST = EACH < 4 ? EACH : 4;  // in one load
#pragma unroll
  for (int part = 0; part < EACH; part += MOST) {
    const Bits<4 * MOST> bits = load<4 * MOST>((const char*)(from + part));
#pragma unroll
    for (int e = 0; e < MOST; ++e) sums[part + e] += __uint_as_float(bits.words[e]) * share;
  }
}

extern "C" __global__ void __launch_bounds__(WARPS * 32, 4) decode_merge(batch_t b) {
  await_pieces();
  const int2 mark = ((const int2*)b.marks)[blockIdx.y];
  if (mark.x < 0) return;
  const u32 kv_head = blockIdx.x, lane = threadIdx.x % 32;
  const u32 pieces = (u32)mark.y - blockIdx.y + 1;
  const u64 apart = 2 * b.kv_heads * columns_of(b);  // lines from a piece to the next, behind the first
  const float2* const ends = (const float2*)b.weights;
  const u32 column = blockIdx.z * WARPS + threadIdx.x / 32;
  if (column >= columns_of(b)) return;
  const u64 first = line_of(b, 2 * (u64)blockIdx.y + 1, kv_head, column);
  const u64 other = line_of(b, 2 * (u64)blockIdx.y, kv_head, column);  // piece s is s * apart behind this
  float largest = ends[first].x;
  for (u32 s = 1 + lane; s < pieces; s += 32) largest = fmaxf(largest, ends[other + s * apart].x);
#pragma unroll
  for (int step = 1; step < 32; step *= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, step));
  const float base = largest == NEVER ? 0 : largest;
  float weight = 0, sums[EACH] = {};
#pragma unroll 8
  for (u32 s = 0; s < pieces; ++s) {
    const u64 line = s == 0 ? first : other + s * apart;
    const float2 end = ends[line];
    const float share = power(end.x - base);
    weight += end.y * share;
    add(b.sums + line * HEAD_DIM + lane * EACH, share, sums);
  }
  element* const to = out_of(b, mark.x, kv_head, column) + lane * EACH;
#pragma unroll
  for (int e = 0; e < EACH; ++e) put(to + e, result_of(b, sums[e], weight));
}
