// Writes the dense block table of a batch: out[i][c] = table[rows[i]][c] for the blocks that row's tokens fill, else pad.
//
// lengths[i] is in tokens; with block_size = 1 it is in blocks. A row outside [0, table_rows) is a padding row, all pad.
// No column at or beyond `width` is read, whatever the length says. Everything read is on the device, so the launch can
// be captured into a graph and replayed over other rows and lengths.
// Grid: (ceil(out_width / THREADS), min(n, 65535)) CTAs of THREADS threads. Macros: THREADS.

typedef unsigned long long u64;
typedef unsigned int u32;

static __device__ __forceinline__ u64 live_columns(int length, u32 block_size, u64 width) {
  const u64 blocks = length > 0 ? (u64)(((u32)length - 1) / block_size) + 1 : 0;
  return blocks < width ? blocks : width;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    gather_table(const int* table, u64 table_rows, u64 width, const int* rows, const int* lengths, u32 n,
                 u32 block_size, int* out, u64 out_width, int pad) {
  const u64 column = (u64)blockIdx.x * THREADS + threadIdx.x;
  if (column >= out_width) return;
  for (u64 i = blockIdx.y; i < n; i += gridDim.y) {
    const int row = rows[i];
    const bool inside = row >= 0 && (u64)row < table_rows;
    const bool live = inside && column < live_columns(lengths[i], block_size, width);
    out[i * out_width + column] = live ? table[(u64)row * width + column] : pad;
  }
}
