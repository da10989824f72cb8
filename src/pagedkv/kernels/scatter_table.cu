// Sets table[row][column] = block for int32 updates [k][3] (row, column, block); no entry twice in one launch.
//
// The host has checked rows and columns; a row below 0 is padding, so that a captured graph can be replayed with fewer
// updates than it was captured with. Grid: ceil(k / THREADS) CTAs of THREADS threads. Macros: THREADS.

typedef unsigned long long u64;
typedef unsigned int u32;

extern "C" __global__ void __launch_bounds__(THREADS) scatter_table(int* table, u64 width, const int* updates, u32 k) {
  const u64 at = (u64)blockIdx.x * THREADS + threadIdx.x;
  if (at >= k) return;
  const int* update = updates + 3 * at;
  if (update[0] < 0) return;
  table[(u64)update[0] * width + (u64)update[1]] = update[2];
}
