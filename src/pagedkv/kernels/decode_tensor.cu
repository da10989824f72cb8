// decode_attention.cu on tensor cores, for 16-bit queries over K and V of their format or of an 8-bit one; from sm_80 on.
//
// S^T = K Q^T and O^T = V^T P^T with tokens and dims in M, columns in N. Each warp works on tiles of 16 tokens of its own.
// STAGES of them come into shared memory by the bulk copy engine (decode_stages.cuh). Without STAGES, a warp has one tile
// in registers and loads the next one's K while it works on this one's V (decode_registers.cuh): a dot product may take
// its dims, and a product its tokens, in any order, so a thread loads 16 consecutive bytes of a row and calls them the
// elements that its place in a fragment wants.
// Grid and macros as there, with COLUMNS 8, 16 or 32; GROUPS (1, 2, 4) of so many columns, each with its own warps, which
// read the same tokens; STAGED (1: queries lie in shared memory); with STAGES, GROUPS 1 and SHARED (bytes of dynamic
// shared memory), and maps of K and V as a second argument; DRAFTS (0: one query token a sequence); WHOLE (1: block_size
// is a multiple of 16, so a tile lies in one block).

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
#define EARLY (AHEAD || STAGES)
// No registers for the V of one tile and the K of the next.
#define LATE (!STAGES && DRAFTS && (HEAD_DIM == 256 || !WHOLE))
#include "decode_places.cuh"
#if STAGES
#include "decode_stages.cuh"
#else
#include "decode_registers.cuh"
#endif
#include "decode_queries.cuh"

#define LOWEST -3e38f  // NEVER - NEVER would be no number

// What a warp has of its columns: O^T in fragments, and of each column the maximum and the sum of weights.
struct warp_sums_t {
  float sums[BANDS][HEAD_DIM / 16][4];
  float maxima[BANDS][2], weights[BANDS][2];
};

#include "decode_weights.cuh"
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
#if LADDER
        all.sums(warp, column, m * 16 + lane / 4).x = own.sums[n][m][h];
        all.sums(warp, column, m * 16 + lane / 4 + 8).x = own.sums[n][m][h + 2];
#else
        const u32 dim = (m / (OF_LOAD / 2) * 8 + lane / 4) * OF_LOAD + m % (OF_LOAD / 2) * 2;
        all.sums(warp, column, dim) = make_float2(own.sums[n][m][h], own.sums[n][m][h + 2]);
#endif
      }
    }
}

// What a warp keeps from piece to piece: the first tiles of the next one, on their way.
struct worker_t {
  queries_t q;
  loaded_t x;
  tiles_t tiles;
#if EARLY
  u32 ring;
#endif
#if STAGES
  u32 turns;  // bit s: which turn of stage s is awaited
#else
  tile_t tile;
#endif

  __device__ __forceinline__ void begin(const batch_t& b, const piece_t& piece, sums_t& all);
  __device__ __forceinline__ void sum_up(const batch_t& b, const piece_t& piece, const piece_t& coming, u32 i, sums_t& all);

 private:
#if EARLY
  __device__ __forceinline__ void load_first(const batch_t& b, const piece_t& piece, sums_t& all);
#endif
#if STAGES
  __device__ __forceinline__ void take_stage(u32 stage, sums_t& all) {
    const u32 warp = threadIdx.x / 32;
    x.stage = all.own[warp] + stage * STAGE, x.barrier = &all.barriers[warp][stage], x.scales = all.scales[warp][stage];
  }
  // Tiles first to last - 1 of a piece into the stages that are theirs.
  __device__ __forceinline__ void fill(const batch_t& b, const piece_t& piece, int first, int last, sums_t& all) {
#pragma unroll
    for (int n = first; n < last; ++n) {
      take_stage((COVERED + n) % STAGES, all);
      load_tile(b, piece, tiles, first_tile(piece) + n * STEP, x);
    }
  }
#endif
};

#if EARLY
// What can be on its way while sums are still where they are.
__device__ __forceinline__ void worker_t::load_first(const batch_t& b, const piece_t& piece, sums_t& all) {
#if STAGES
  fill(b, piece, 0, FILLED, all);
#else
  (void)all;
  tile = follow(b, piece, tiles, first_tile(piece));
  load_keys(b, piece, tile, x);
  load_values(b, piece, tile, x);
#endif
}
#endif

__device__ __forceinline__ void worker_t::begin(const batch_t& b, const piece_t& piece, sums_t& all) {
#if EARLY
  ring = 0;
  tiles.begin(b, piece, ring, all);
#else
  (void)b, (void)piece, (void)all;
#endif
#if STAGES
  turns = 0;
  if (threadIdx.x % 32 < STAGES) begin_barrier(&all.barriers[threadIdx.x / 32][threadIdx.x % 32]);
  give_to_engine();
#else
  x.aim(b, blockIdx.x);
#endif
#if EARLY
  load_first(b, piece, all);
#endif
}

// The sums of a piece, from the warps' tiles into `all`.
__device__ __forceinline__ void worker_t::sum_up(const batch_t& b, const piece_t& piece, const piece_t& coming, u32 i,
                                                 sums_t& all) {
  const u32 warp = threadIdx.x / 32;
  const u32 first = (blockIdx.z * GROUPS + warp % GROUPS) * COLUMNS;
  warp_sums_t own = {};
#pragma unroll
  for (int n = 0; n < BANDS; ++n) own.maxima[n][0] = own.maxima[n][1] = LOWEST;
#if STAGES
  give_to_engine();
  fill(b, piece, FILLED, STAGES, all);
#elif !AHEAD
  (void)coming;
  tiles.begin(b, piece, 0, all);
  tile = follow(b, piece, tiles, first_tile(piece));
#endif
#if EARLY
  tiles_t soon;
  soon.begin(b, coming, ring ^ 1, all);
#endif
  load_queries(b, i, blockIdx.x, first, all, q);
#if STAGES
  u32 stage = COVERED % STAGES;
  for (u32 at = first_tile(piece); at < piece.end; at += STEP) {
    take_stage(stage, all);
    await_barrier(x.barrier, turns >> stage & 1);
    turns ^= 1 << stage;
    const tile_t tile{at, {tiles.known(at)}};
#else
#if !AHEAD
  load_keys(b, piece, tile, x);
  load_values(b, piece, tile, x);
#endif
  tile_t next = follow(b, piece, tiles, tile.at + STEP);
  while (tile.at < piece.end) {
#endif
    float s[BANDS][4];
    multiply_keys(q, x, s);
    const weighing_t given = weighing_of(x);
#if !STAGES
    if (!LATE) load_keys(b, piece, next, x);
#endif
    u32 p[BANDS][2];
    const bool full = weigh(b, piece, tile, first, q, given, s, p, all, own);
    add_values(b, piece, tile, first, full, p, x, all, own);
#if STAGES
    if (full) __syncwarp();
    else give_to_engine();
    load_tile(b, piece, tiles, at + STAGES * STEP, x);
    stage = stage + 1 < STAGES ? stage + 1 : 0;
#else
    if (LATE) load_keys(b, piece, next, x);
    load_values(b, piece, next, x);
    tile = next;
    next = follow(b, piece, tiles, next.at + STEP);
#endif
  }
#if EARLY
  tiles = soon, ring ^= 1;
  load_first(b, coming, all);
#endif
  put_sums(own, all);
}

#if STAGES
#define MAPS , const __grid_constant__ maps_t maps
#else
#define MAPS
#endif

extern "C" __global__ void __launch_bounds__(WARPS * 32, CTAS) decode_tensor(batch_t b MAPS) {
  worker_t worker;
#if STAGES
  extern __shared__ char memory[];
  static_assert(sizeof(sums_t) + 1024 <= SHARED, "attention_tensor.py reserves too little");
  sums_t& all = *(sums_t*)(memory + (1024 - shared_address(memory) % 1024) % 1024);
  worker.x.maps = &maps;
#else
  __shared__ sums_t all;
#endif
  for_each_piece(b, all, worker);
}
