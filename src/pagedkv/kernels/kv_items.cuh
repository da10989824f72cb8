// Which token, head and elements a work item of K or V is, and where they lie in a block. Behind number_formats.cuh, and
// the macros of write_kv.cu.

#define GIVEN_BYTES (ELEMENTS * Format<GIVEN>::BYTES)
#define STORED_BYTES (ELEMENTS * Format<STORED>::BYTES)

// A part whose heads have DIM elements, of which an item has ELEMENTS.
template <int DIM>
struct Part {
  static constexpr u32 OF_HEAD = DIM / ELEMENTS, OF_TOKEN = HEADS * OF_HEAD;  // items
  static constexpr u64 ROW = (u64)DIM * Format<STORED>::BYTES;
  static constexpr u64 TOKEN = HND ? ROW : ROW * HEADS, HEAD = HND ? ROW * BLOCK_SIZE : ROW;

  // Of the item `at`, counted from a token's start.
  static __device__ __forceinline__ u32 head(u32 at) { return at % OF_TOKEN / OF_HEAD; }
  static __device__ __forceinline__ u64 place(u32 at) { return at % OF_HEAD; }  // items in front of it in its head

  // Bytes from a block's start to a head of the token at `offset`, and to its scale.
  static __device__ __forceinline__ u64 row_of(u64 offset, u32 head) { return offset * TOKEN + head * HEAD; }
  static __device__ __forceinline__ u64 scale_of(u64 offset, u32 head) {
    return (HND ? head * (u64)BLOCK_SIZE + offset : offset * HEADS + head) * sizeof(float);
  }
};

#ifdef UNROLL
// A thread's UNROLL items of CTA `cta`, which counts from the part's first one, each THREADS behind the one before.
template <int DIM>
struct Items {
  typedef Part<DIM> P;
  u64 first;  // token of the CTA's first item
  u32 rest;   // of the thread's first item behind that token's start

  __device__ __forceinline__ explicit Items(u32 cta) {
    const u64 start = (u64)cta * (THREADS * UNROLL);
    first = start / P::OF_TOKEN;
    rest = (u32)(start % P::OF_TOKEN) + threadIdx.x;
  }
  // Kernels keep `at` and find the rest from it again: with the rest kept instead, they took 40 registers for 30.
  __device__ __forceinline__ u32 at(int i) const { return rest + i * THREADS; }
  __device__ __forceinline__ u64 token(u32 at) const { return first + at / P::OF_TOKEN; }
};
#endif
