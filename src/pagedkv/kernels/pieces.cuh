// How a kernel is told where rows (blocks or tokens) lie: EXTENTS, one argument. Copied into its source by the loader.
//
// PIECES 0 (the default): u64 row_bytes; row i is one extent at i * row_bytes.
// PIECES 1: pieces_t pieces; piece p of row i in group g is sizes[p] bytes at g * group_stride + starts[p] + i * sizes[p],
// and a row's bytes are its pieces, group by group. kernels/pieces.py packs it; layout.py, Extents, says more.

#ifndef PIECES
#define PIECES 0
#endif

#if PIECES
struct pieces_t {
  u64 sizes[4];
  u64 starts[4];
  u64 group_stride;
  u64 groups;
  u64 parts;
};

// Without it an argument that is indexed would be copied to every thread's own memory first; sm_70 and later have it.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 700
#define IN_PLACE __grid_constant__
#else
#define IN_PLACE
#endif
#define EXTENTS const IN_PLACE pieces_t pieces
#else
#define EXTENTS u64 row_bytes
#endif
