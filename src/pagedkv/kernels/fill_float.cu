// Writes values[i] to every float of block block_ids[i]; an id below 0 is skipped.
//
// Made for the self-test, where a reader wants to see plain numbers. Grid: n CTAs of THREADS threads.
// Macros: THREADS. block_floats = block_bytes / 4; block_bytes is a multiple of 4.

typedef unsigned long long u64;

extern "C" __global__ void __launch_bounds__(THREADS)
    fill_float(float* pool, const long long* block_ids, const float* values, u64 block_floats) {
  const long long block = block_ids[blockIdx.x];
  if (block < 0) return;
  const float value = values[blockIdx.x];
  float* floats = pool + (u64)block * block_floats;
  for (u64 at = threadIdx.x; at < block_floats; at += THREADS) floats[at] = value;
}
