// Adds to `counter` the number of rows that do not hold the pattern fill_rows.cu writes, once a wrong row.
//
// Parameters, grid and macros are those of fill_rows.cu; `counter` is one aligned 64-bit number. A row, with all its
// pieces, belongs to one group of LANES threads, which agree through shared memory, so a wrong row is counted once however
// much of it is wrong.

typedef unsigned long long u64;
typedef unsigned int u32;

#include "pieces.cuh"

#define GOLDEN 0x9E3779B97F4A7C15ull

#if VEC == 16
typedef ulonglong2 element;
#elif VEC == 8
typedef u64 element;
#elif VEC == 4
typedef u32 element;
#elif VEC == 2
typedef unsigned short element;
#else
typedef unsigned char element;
#endif

static __device__ __forceinline__ u64 mix(u64 z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

static __device__ __forceinline__ bool differs(element found, u64 key, u64 at) {
#if VEC == 16
  const u64 low = key + 2 * at * GOLDEN;
  return found.x != low || found.y != low + GOLDEN;
#else
  const u64 byte = at * VEC;
  return found != (element)((key + (byte / 8) * GOLDEN) >> (8 * (byte % 8)));
#endif
}

#if PIECES
static __device__ __forceinline__ bool row_differs(const char* rows, u64 index, const pieces_t& pieces, u64 key) {
  bool wrong = false;
  u64 before = 0;
  for (u64 group = 0; group < pieces.groups; ++group) {
    for (u32 part = 0; part < pieces.parts; ++part) {
      const u64 size = pieces.sizes[part];
      const u64 start = group * pieces.group_stride + pieces.starts[part];
      const element* piece = (const element*)(rows + start + index * size);
      const u64 elements = size / VEC;
      for (u64 at = threadIdx.x % LANES; at < elements; at += LANES) wrong |= differs(piece[at], key, before + at);
      before += elements;
    }
  }
  return wrong;
}
#else
static __device__ __forceinline__ bool row_differs(const element* row, u64 elements, u64 key) {
  bool wrong = false;
#pragma unroll 4
  for (u64 at = threadIdx.x % LANES; at < elements; at += LANES) wrong |= differs(row[at], key, at);
  return wrong;
}
#endif

extern "C" __global__ void __launch_bounds__(THREADS)
    verify_rows(const char* rows, const long long* owners, const long long* positions, const long long* indices, u64 n,
                EXTENTS, u64* counter) {
  __shared__ u32 wrong_lanes[THREADS / LANES];
  const u32 group = threadIdx.x / LANES;
  const bool first_lane = threadIdx.x % LANES == 0;
  if (first_lane) wrong_lanes[group] = 0;
  __syncthreads();

  // No thread may leave before the second barrier, not even one without a row.
  const u64 item = (u64)blockIdx.x * (THREADS / LANES) + group;
  if (item < n && indices[item] >= 0) {
    const u64 place = POSITIONS ? (u64)positions[item] + 1 : 0;
    const u64 key = mix(mix((u64)owners[item] + GOLDEN) + place * GOLDEN);
#if PIECES
    const bool wrong = row_differs(rows, (u64)indices[item], pieces, key);
#else
    const element* row = (const element*)(rows + (u64)indices[item] * row_bytes);
    const bool wrong = row_differs(row, row_bytes / VEC, key);
#endif
    if (wrong) atomicAdd(&wrong_lanes[group], 1u);
  }
  __syncthreads();
  if (first_lane && wrong_lanes[group] != 0) atomicAdd(counter, 1ull);
}
