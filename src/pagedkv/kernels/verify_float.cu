// Adds to `counter` the number of floats of block block_ids[i] that are not equal to values[i] (a NaN never is).
//
// Grid and macros are those of fill_float.cu; an id below 0 is skipped; `counter` is one aligned 64-bit number.

typedef unsigned long long u64;
typedef unsigned int u32;

#include "pieces.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    verify_float(const float* pool, const long long* block_ids, const float* values, EXTENTS, u64* counter) {
  __shared__ u64 wrong_of_block;
  if (threadIdx.x == 0) wrong_of_block = 0;
  __syncthreads();

  const long long block = block_ids[blockIdx.x];
  u64 wrong = 0;
  if (block >= 0) {
    const float value = values[blockIdx.x];
#if PIECES
    for (u64 group = 0; group < pieces.groups; ++group) {
      for (u32 part = 0; part < pieces.parts; ++part) {
        const u64 size = pieces.sizes[part];
        const u64 start = group * pieces.group_stride + pieces.starts[part];
        const float* floats = (const float*)((const char*)pool + start + (u64)block * size);
        for (u64 at = threadIdx.x; at < size / 4; at += THREADS) wrong += floats[at] == value ? 0 : 1;
      }
    }
#else
    const float* floats = pool + (u64)block * (row_bytes / 4);
    for (u64 at = threadIdx.x; at < row_bytes / 4; at += THREADS) wrong += floats[at] == value ? 0 : 1;
#endif
  }
  if (wrong != 0) atomicAdd(&wrong_of_block, wrong);
  __syncthreads();
  if (threadIdx.x == 0 && wrong_of_block != 0) atomicAdd(counter, wrong_of_block);
}
