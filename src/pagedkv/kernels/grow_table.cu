// Copies a table into the upper left corner of a larger one and writes `pad` elsewhere.
//
// With old_rows = 0 the old table is not read. Grid: (ceil(new_width / THREADS), min(new_rows, 65535)) CTAs of THREADS
// threads; rows beyond the grid's are reached by a stride. Macros: THREADS.

typedef unsigned long long u64;

extern "C" __global__ void __launch_bounds__(THREADS)
    grow_table(const int* old_table, u64 old_rows, u64 old_width, int* new_table, u64 new_rows, u64 new_width, int pad) {
  const u64 column = (u64)blockIdx.x * THREADS + threadIdx.x;
  if (column >= new_width) return;
  for (u64 row = blockIdx.y; row < new_rows; row += gridDim.y) {
    const bool kept = row < old_rows && column < old_width;
    new_table[row * new_width + column] = kept ? old_table[row * old_width + column] : pad;
  }
}
