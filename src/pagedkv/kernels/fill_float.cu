// Writes values[i] to every float of block block_ids[i]; an id below 0 is skipped.
//
// Made for the self-test, where a reader wants to see plain numbers. Grid: n CTAs of THREADS threads.
// Macros: THREADS, PIECES (default 0; 1: a block lies in pieces). Every size is a multiple of 4.

typedef unsigned long long u64;
typedef unsigned int u32;

#include "pieces.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    fill_float(float* pool, const long long* block_ids, const float* values, EXTENTS) {
  const long long block = block_ids[blockIdx.x];
  if (block < 0) return;
  const float value = values[blockIdx.x];
#if PIECES
  for (u64 group = 0; group < pieces.groups; ++group) {
    for (u32 part = 0; part < pieces.parts; ++part) {
      const u64 size = pieces.sizes[part];
      const u64 start = group * pieces.group_stride + pieces.starts[part];
      float* floats = (float*)((char*)pool + start + (u64)block * size);
      for (u64 at = threadIdx.x; at < size / 4; at += THREADS) floats[at] = value;
    }
  }
#else
  float* floats = pool + (u64)block * (row_bytes / 4);
  for (u64 at = threadIdx.x; at < row_bytes / 4; at += THREADS) floats[at] = value;
#endif
}
