// decode_attention.cu on tensor cores, for 16-bit queries over K and V of their format or of an 8-bit one; from sm_80 on.
//
// S^T = K Q^T and O^T = V^T P^T with tokens and dims in M, columns in N. A dot product may take its dims, and a product
// its tokens, in any order, so a thread loads 16 consecutive bytes of a row and calls them the elements that its place
// in a fragment wants: with few columns nothing goes through shared memory. Each warp has a tile of 16 tokens in
// registers, 16 loads a thread at a head size of 128, and loads the next tile's K while it works on this one's V.
// Grid and macros as there, with COLUMNS 8, 16 or 32; GROUPS (1, 2, 4) of so many columns, each with its own warps, which
// read the same tokens; STAGED (1: queries lie in shared memory); STAGES (tiles that a warp has in shared memory; 0: one
// in registers) and, with them, GROUPS 1 and SHARED (bytes of dynamic shared memory); DRAFTS (0: one query token a
// sequence); WHOLE (1: block_size is a multiple of 16, so a tile lies in one block).

#if __CUDA_ARCH__ < 800
#error "16-bit tensor cores of this shape start at sm_80; decode_attention.cu takes the same arguments"
#endif

#define PARTS 1
#include "number_formats.cuh"
#include "decode_fragments.cuh"
#include "decode_pieces.cuh"
#include "decode_shares.cuh"
// Where there are registers for it, the first tile of the next piece is on its way while this one's result is made.
#define AHEAD (!STAGES && HEAD_DIM < 256 && WHOLE)
// No registers for the V of one tile and the K of the next.
#define LATE (!STAGES && DRAFTS && (HEAD_DIM == 256 || !WHOLE))
#include "decode_places.cuh"
#if STAGES
#include "decode_stages.cuh"
#else
#include "decode_registers.cuh"
#endif
#include "decode_queries.cuh"

// What a warp has of its columns: O^T in fragments, and of each column the maximum and the sum of weights.
struct warp_sums_t {
  float sums[BANDS][HEAD_DIM / 16][4];
  float maxima[BANDS][2], weights[BANDS][2];
};

#include "decode_tile.cuh"

// A warp's sums, where `finish` finds them.
static __device__ __forceinline__ void put_sums(warp_sums_t& own, sums_t& all) {
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  __syncwarp();
#pragma unroll
  for (int n = 0; n < BANDS; ++n)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const u32 column = n * 8 + 2 * (lane % 4) + h;
#pragma unroll
      for (int step = 4; step < 32; step *= 2) own.weights[n][h] += __shfl_xor_sync(~0u, own.weights[n][h], step);
      if (lane < 4) all.maxima[warp][column] = own.maxima[n][h], all.weights[warp][column] = own.weights[n][h];
#pragma unroll
      for (int m = 0; m < HEAD_DIM / 16; ++m) {
        const u32 dim = (m / (OF_LOAD / 2) * 8 + lane / 4) * OF_LOAD + m % (OF_LOAD / 2) * 2;
        all.sums(warp, column, dim) = make_float2(own.sums[n][m][h], own.sums[n][m][h + 2]);
      }
    }
}

// What a warp keeps from piece to piece: the first tile of the next one, on its way, where it comes into registers.
struct worker_t {
  queries_t q;
  loaded_t x;
#if !STAGES
  tile_t tile;
#endif

  __device__ __forceinline__ void begin(const batch_t& b, const piece_t& piece, sums_t& all);
  __device__ __forceinline__ void sum_up(const batch_t& b, const piece_t& piece, const piece_t& coming, u32 i, sums_t& all);
};

__device__ __forceinline__ void worker_t::begin(const batch_t& b, const piece_t& piece, sums_t& all) {
  (void)all;
#if AHEAD
  tile = look_up(b, piece, piece.begin + threadIdx.x / 32 / GROUPS * TILE);
  load_keys(b, piece, blockIdx.x, tile, x);
  load_values(b, piece, blockIdx.x, tile, x);
#else
  (void)b, (void)piece;
#endif
}

// The sums of a piece, from the warps' tiles into `all`.
__device__ __forceinline__ void worker_t::sum_up(const batch_t& b, const piece_t& piece, const piece_t& coming, u32 i,
                                                 sums_t& all) {
  const u32 warp = threadIdx.x / 32, kv_head = blockIdx.x;
  const u32 first = (blockIdx.z * GROUPS + warp % GROUPS) * COLUMNS;
  warp_sums_t own = {};
#pragma unroll
  for (int n = 0; n < BANDS; ++n) own.maxima[n][0] = own.maxima[n][1] = NEVER;
#if !AHEAD
  (void)coming;
#endif
#if STAGES
  char* const stages = all.own[warp];
  u32 stage = 0;
  {
    coming_t ahead[STAGES];
#pragma unroll
    for (int s = 0; s < STAGES; ++s) ahead[s] = look_ahead(b, piece, piece.begin + warp * TILE + s * STEP);
#pragma unroll
    for (int s = 0; s < STAGES; ++s) {
      x.stage = stages + s * STAGE;
      load_keys(b, piece, kv_head, ahead[s], x);
      load_values(b, piece, kv_head, ahead[s], x);
    }
  }
  coming_t next = look_ahead(b, piece, piece.begin + warp * TILE + STAGES * STEP);
  load_queries(b, i, kv_head, first, all, q);
  for (u32 at = piece.begin + warp * TILE; at < piece.end; at += STEP) {
    x.stage = stages + stage;
    stage = stage + STAGE < STAGES * STAGE ? stage + STAGE : 0;
    await_copies();
    const tile_t tile = x.tile(at);
#else
#if !AHEAD
  tile = look_up(b, piece, piece.begin + warp / GROUPS * TILE);
#endif
  load_queries(b, i, kv_head, first, all, q);
#if AHEAD
  const tile_t soon = look_up(b, coming, coming.begin + warp / GROUPS * TILE);
#else
  load_keys(b, piece, kv_head, tile, x);
  load_values(b, piece, kv_head, tile, x);
#endif
  tile_t next = look_up(b, piece, tile.at + STEP);
  while (tile.at < piece.end) {
#endif
    float s[BANDS][4];
    multiply_keys(q, x, s);
    const weighing_t given = weighing_of(x);
    if (!LATE) load_keys(b, piece, kv_head, next, x);
    u32 p[BANDS][2];
    const bool full = weigh(b, piece, tile, first, q, given, s, p, all, own);
#if STAGES
    await_copies();
#endif
    add_values(b, piece, tile, first, full, p, x, all, own);
    if (LATE) load_keys(b, piece, kv_head, next, x);
    load_values(b, piece, kv_head, next, x);
#if STAGES
    next = look_ahead(b, piece, next.at + STEP);
#else
    tile = next;
    next = look_up(b, piece, next.at + STEP);
#endif
  }
#if AHEAD
  tile = soon;
  load_keys(b, coming, kv_head, tile, x);
  load_values(b, coming, kv_head, tile, x);
#endif
  put_sums(own, all);
}

extern "C" __global__ void __launch_bounds__(WARPS * 32, CTAS) decode_tensor(batch_t b) {
#if STAGES
  extern __shared__ uint4 memory[];
  static_assert(sizeof(sums_t) <= SHARED, "attention_shapes.py reserves too little");
  sums_t& all = *(sums_t*)memory;
#else
  __shared__ sums_t all;
#endif
  worker_t worker;
  for_each_piece(b, all, worker);
}
