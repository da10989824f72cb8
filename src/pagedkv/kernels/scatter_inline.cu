// scatter_table for the few updates of an ordinary step: they travel as a kernel argument, so nothing is uploaded,
// nothing is staged, and a captured graph keeps its own copy.
//
// Grid: ceil(k / THREADS) CTAs of THREADS threads. Macros: THREADS; CAPACITY: updates that the argument has room for
// (12 bytes each; CUDA allows 4,096 bytes of arguments in all). k <= CAPACITY.

typedef unsigned long long u64;
typedef unsigned int u32;

struct updates_t {
  int entries[3 * CAPACITY];  // (row, column, block)
};

// Without it an argument that is indexed would be copied to every thread's own memory first; sm_70 and later have it.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 700
#define IN_PLACE __grid_constant__
#else
#define IN_PLACE
#endif

extern "C" __global__ void __launch_bounds__(THREADS)
    scatter_inline(int* table, u64 width, u32 k, const IN_PLACE updates_t updates) {
  const u64 at = (u64)blockIdx.x * THREADS + threadIdx.x;
  if (at >= k) return;
  const int* update = updates.entries + 3 * at;
  if (update[0] < 0) return;
  table[(u64)update[0] * width + (u64)update[1]] = update[2];
}
