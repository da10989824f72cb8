// Copies whole blocks inside the pool: pool[destination] = pool[source] for int32 pairs [n][2].
//
// One CTA moves one chunk of THREADS * UNROLL * VEC bytes of PAIRS pairs and ends: on an H200 that is faster than a
// grid-stride loop, than cp.async.bulk and than cache hints. Every load is issued before the first store, which keeps
// UNROLL loads of a thread in flight. No destination of a launch is also a source. A pair with a source below 0 is
// padding. Grid: ceil(n / PAIRS) * chunks_per_block CTAs of THREADS threads.
// Macros: THREADS, UNROLL, VEC (1, 2, 4, 8, 16: divides block_bytes and the pool's address), TAIL (1: the chunk does not
// divide block_bytes; 0: no bounds check), PAIRS (default 1), PIECES (default 0).
//
// PIECES 1: a block lies in pieces. blockIdx.y is group * parts + part, and the groups beyond the grid's are strided over;
// chunks_per_block is that of the largest piece, VEC divides every size and offset, TAIL is 0 if the chunk divides every
// size.

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

#ifndef PAIRS
#define PAIRS 1
#endif

static __device__ __forceinline__ void copy_chunk(char* pool, const int* pairs, u64 block_bytes, u32 chunks_per_block,
                                                  u32 n) {
  const u32 group = blockIdx.x / chunks_per_block;
  const u32 chunk = blockIdx.x - group * chunks_per_block;
  const u64 first = (u64)chunk * (THREADS * UNROLL) + threadIdx.x;
  const u64 words = block_bytes / VEC;
#if PIECES
  if ((u64)chunk * (THREADS * UNROLL) >= words) return;  // a piece smaller than the largest
#endif

  // All ids at once: only the first pair of a CTA waits for them.
  int ids[2 * PAIRS];
#pragma unroll
  for (int p = 0; p < PAIRS; ++p) {
    const u64 pair = (u64)group * PAIRS + p;
    ids[2 * p] = pair < n ? pairs[2 * pair] : -1;
    ids[2 * p + 1] = pair < n ? pairs[2 * pair + 1] : -1;
  }
#pragma unroll
  for (int p = 0; p < PAIRS; ++p) {
    const int source_id = ids[2 * p];
    const int destination_id = ids[2 * p + 1];
    if (source_id < 0) continue;
    const word* source = (const word*)(pool + (u64)source_id * block_bytes);
    word* destination = (word*)(pool + (u64)destination_id * block_bytes);

    word moved[UNROLL];
#pragma unroll
    for (int i = 0; i < UNROLL; ++i) {
      const u64 at = first + (u64)i * THREADS;
      if (!TAIL || at < words) moved[i] = source[at];
    }
#pragma unroll
    for (int i = 0; i < UNROLL; ++i) {
      const u64 at = first + (u64)i * THREADS;
      if (!TAIL || at < words) destination[at] = moved[i];
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    copy_blocks(char* pool, const int* pairs, EXTENTS, u32 chunks_per_block, u32 n) {
#if PIECES
  const u32 parts = (u32)pieces.parts;
  const u32 part = blockIdx.y % parts;
  for (u32 group = blockIdx.y / parts; group < pieces.groups; group += gridDim.y / parts) {
    char* start = pool + (u64)group * pieces.group_stride + pieces.starts[part];
    copy_chunk(start, pairs, pieces.sizes[part], chunks_per_block, n);
  }
#else
  copy_chunk(pool, pairs, row_bytes, chunks_per_block, n);
#endif
}
