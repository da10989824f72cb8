// Computes slots on the device: out[i] = block * block_size + offset of position positions[i] in row rows[i], int64.
//
// -1 for what has no slot: a row outside [0, table_rows), a position below 0, a column at or beyond `width`, a table
// entry below 0, and, when `limits` is given, a position at or beyond limits[i] (what lies there in the table is padding
// or a former owner's block). Grid: ceil(n / THREADS) CTAs of THREADS threads.
// Macros: THREADS, POSITION_BYTES (4 or 8: int32 or int64 positions).

typedef unsigned long long u64;
typedef unsigned int u32;

#if POSITION_BYTES == 4
typedef int position_t;
#else
typedef long long position_t;
#endif

extern "C" __global__ void __launch_bounds__(THREADS)
    slots(const int* table, u64 table_rows, u64 width, const int* rows, const position_t* positions, const int* limits,
          u64 n, u32 block_size, long long* out) {
  const u64 i = (u64)blockIdx.x * THREADS + threadIdx.x;
  if (i >= n) return;
  const int row = rows[i];
  const long long position = positions[i];
  const bool within = position >= 0 && (limits == nullptr || position < limits[i]);
  long long slot = -1;
  if (within && row >= 0 && (u64)row < table_rows) {
    const u64 column = (u64)position / block_size;
    const int block = column < width ? table[(u64)row * width + column] : -1;
    if (block >= 0) slot = (long long)block * block_size + (long long)((u64)position - column * block_size);
  }
  out[i] = slot;
}
