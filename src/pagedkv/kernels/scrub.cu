// Writes zeros over whole blocks; ids are int64 [n], one below 0 is padding.
//
// The shape is that of copy_blocks.cu: one CTA, one chunk. Grid: n * chunks_per_block CTAs of THREADS threads.
// Macros: THREADS, UNROLL, VEC, TAIL as in copy_blocks.cu.

typedef unsigned long long u64;
typedef unsigned int u32;

#if VEC == 16
typedef uint4 word;
#elif VEC == 8
typedef uint2 word;
#elif VEC == 4
typedef u32 word;
#elif VEC == 2
typedef unsigned short word;
#else
typedef unsigned char word;
#endif

extern "C" __global__ void __launch_bounds__(THREADS)
    scrub(char* pool, const long long* block_ids, u64 block_bytes, u32 chunks_per_block) {
  const u32 place = blockIdx.x / chunks_per_block;
  const u32 chunk = blockIdx.x - place * chunks_per_block;
  const long long block = block_ids[place];
  if (block < 0) return;
  word* words_of_block = (word*)(pool + (u64)block * block_bytes);
  const u64 words = block_bytes / VEC;
  const word zero = {};
#pragma unroll
  for (int i = 0; i < UNROLL; ++i) {
    const u64 at = (u64)chunk * (THREADS * UNROLL) + (u64)i * THREADS + threadIdx.x;
    if (!TAIL || at < words) words_of_block[at] = zero;
  }
}
