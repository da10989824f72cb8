// The second half of FlashInfer's CSR tables: indices[indptr[i] + c] = table[rows[i]][c]. Launched after csr_indptr.cu
// on the same stream, with the same table.
//
// Nothing at or beyond `capacity` entries of `indices` is written: lengths are known on the device only, so the host
// cannot check beforehand that they fit. Grid: (ceil(width / THREADS), min(n, 65535)) CTAs of THREADS threads.
// Macros: THREADS.

typedef unsigned long long u64;
typedef unsigned int u32;

extern "C" __global__ void __launch_bounds__(THREADS)
    csr_indices(const int* table, u64 table_rows, u64 width, const int* rows, u32 n, const int* indptr, int* indices,
                u64 capacity) {
  const u64 column = (u64)blockIdx.x * THREADS + threadIdx.x;
  if (column >= width) return;
  for (u64 i = blockIdx.y; i < n; i += gridDim.y) {
    const int row = rows[i];
    if (row < 0 || (u64)row >= table_rows) continue;
    const u64 to = (u64)indptr[i] + column;
    if (to < (u64)indptr[i + 1] && to < capacity) indices[to] = table[(u64)row * width + column];
  }
}
