// Writes the pattern of kernels/__init__.py into rows; a row is a token (row = slot) or a block (row = block id).
//
// LANES neighboring threads write one row, so a CTA writes THREADS / LANES rows. A row index below 0 is skipped. Because
// VEC divides row_bytes, the pattern's last word is cut by itself: no element crosses the row's end.
// Grid: ceil(n / (THREADS / LANES)) CTAs of THREADS threads.
// Macros: THREADS, LANES (divides THREADS), VEC (1, 2, 4, 8, 16: divides row_bytes and the address of `rows`),
// POSITIONS (1: read `positions`; 0: every position is -1, the key of a block under its tag, and `positions` is not read),
// PIECES (default 0; 1: a row lies in pieces, one after another its bytes; VEC divides every size and offset).

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

static __device__ __forceinline__ element pattern(u64 key, u64 at) {
#if VEC == 16
  const u64 low = key + 2 * at * GOLDEN;
  return make_ulonglong2(low, low + GOLDEN);
#else
  const u64 byte = at * VEC;
  return (element)((key + (byte / 8) * GOLDEN) >> (8 * (byte % 8)));
#endif
}

extern "C" __global__ void __launch_bounds__(THREADS)
    fill_rows(char* rows, const long long* owners, const long long* positions, const long long* indices, u64 n,
              EXTENTS) {
  const u64 item = (u64)blockIdx.x * (THREADS / LANES) + threadIdx.x / LANES;
  if (item >= n || indices[item] < 0) return;
  const u64 place = POSITIONS ? (u64)positions[item] + 1 : 0;
  const u64 key = mix(mix((u64)owners[item] + GOLDEN) + place * GOLDEN);
#if PIECES
  u64 before = 0;
  for (u64 group = 0; group < pieces.groups; ++group) {
    for (u32 part = 0; part < pieces.parts; ++part) {
      const u64 size = pieces.sizes[part];
      const u64 start = group * pieces.group_stride + pieces.starts[part];
      element* piece = (element*)(rows + start + (u64)indices[item] * size);
      const u64 elements = size / VEC;
      for (u64 at = threadIdx.x % LANES; at < elements; at += LANES) piece[at] = pattern(key, before + at);
      before += elements;
    }
  }
#else
  element* row = (element*)(rows + (u64)indices[item] * row_bytes);
  const u64 elements = row_bytes / VEC;
  for (u64 at = threadIdx.x % LANES; at < elements; at += LANES) row[at] = pattern(key, at);
#endif
}
