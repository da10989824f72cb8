// The first half of FlashInfer's CSR tables: indptr [n + 1] and last_page_len [n] of the rows' lengths, int32.
//
// One CTA scans the whole batch: each thread sums a run of neighboring rows, the CTA scans those sums, each thread
// writes its run. A row outside [0, table_rows) and a length below 1 have no blocks and a last page of 0 tokens; no row
// has more than `width` blocks. indptr stops growing at 2^31 - 1. Grid: 1 CTA of THREADS threads (a power of two).
// Macros: THREADS.

typedef unsigned long long u64;
typedef unsigned int u32;

#define LARGEST 0x7FFFFFFFull

// Everything that both passes need of a row.
struct Row {
  u64 blocks;
  int last_page;
};

static __device__ __forceinline__ Row read_row(int row, int length, u64 table_rows, u64 width, u32 block_size) {
  if (row < 0 || (u64)row >= table_rows || length < 1) return {0, 0};
  const u32 before_last = ((u32)length - 1) / block_size;  // blocks; in 32 bits, as a 64-bit division spills
  if (before_last >= width) return {width, width == 0 ? 0 : (int)block_size};
  return {(u64)before_last + 1, (int)((u32)length - before_last * block_size)};
}

// The sum of the values of all threads before this one.
static __device__ __forceinline__ u64 sum_before(u64 value, u64* sums) {
  sums[threadIdx.x] = value;
  __syncthreads();
  for (u32 step = 1; step < THREADS; step *= 2) {
    const u64 earlier = threadIdx.x >= step ? sums[threadIdx.x - step] : 0;
    __syncthreads();
    sums[threadIdx.x] += earlier;
    __syncthreads();
  }
  return sums[threadIdx.x] - value;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    csr_indptr(const int* rows, const int* lengths, u32 n, u32 block_size, u64 table_rows, u64 width, int* indptr,
               int* last_page_len) {
  __shared__ u64 sums[THREADS];
  const u64 run = ((u64)n + THREADS - 1) / THREADS;
  const u64 first = threadIdx.x * run < n ? threadIdx.x * run : n;
  const u64 last = first + run < n ? first + run : n;

  u64 own = 0;
  for (u64 i = first; i < last; ++i) own += read_row(rows[i], lengths[i], table_rows, width, block_size).blocks;
  u64 total = sum_before(own, sums);
  if (threadIdx.x == 0) indptr[0] = 0;
  for (u64 i = first; i < last; ++i) {
    const Row row = read_row(rows[i], lengths[i], table_rows, width, block_size);
    total += row.blocks;
    indptr[i + 1] = (int)(total < LARGEST ? total : LARGEST);
    last_page_len[i] = row.last_page;
  }
}
