// Writes zeros over whole blocks; ids are int64 [n], one below 0 is padding.
//
// The shape is that of copy_blocks.cu: one CTA, one chunk. Grid: n * chunks_per_block CTAs of THREADS threads.
// Macros: THREADS, UNROLL, VEC, TAIL, PIECES (with its grid) as in copy_blocks.cu.

typedef unsigned long long u64;
typedef unsigned int u32;

#include "pieces.cuh"

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

static __device__ __forceinline__ void scrub_chunk(char* pool, const long long* block_ids, u64 block_bytes,
                                                   u32 chunks_per_block) {
  const u32 place = blockIdx.x / chunks_per_block;
  const u32 chunk = blockIdx.x - place * chunks_per_block;
  const long long block = block_ids[place];
  if (block < 0) return;
  word* words_of_block = (word*)(pool + (u64)block * block_bytes);
  const u64 words = block_bytes / VEC;
#if PIECES
  if ((u64)chunk * (THREADS * UNROLL) >= words) return;  // a piece smaller than the largest
#endif
  const word zero = {};
#pragma unroll
  for (int i = 0; i < UNROLL; ++i) {
    const u64 at = (u64)chunk * (THREADS * UNROLL) + (u64)i * THREADS + threadIdx.x;
    if (!TAIL || at < words) words_of_block[at] = zero;
  }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    scrub(char* pool, const long long* block_ids, EXTENTS, u32 chunks_per_block) {
#if PIECES
  const u32 parts = (u32)pieces.parts;
  const u32 part = blockIdx.y % parts;
  for (u32 group = blockIdx.y / parts; group < pieces.groups; group += gridDim.y / parts) {
    char* start = pool + (u64)group * pieces.group_stride + pieces.starts[part];
    scrub_chunk(start, block_ids, pieces.sizes[part], chunks_per_block);
  }
#else
  scrub_chunk(pool, block_ids, row_bytes, chunks_per_block);
#endif
}
