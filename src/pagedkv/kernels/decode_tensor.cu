// decode_attention.cu on tensor cores straight from registers, for 16-bit queries over K and V of their format or of an
// 8-bit one; from sm_80 on, float8 e4m3 from sm_89.
//
// S^T = K Q^T and O^T = V^T P^T with tokens and dims in M, columns in N. A dot product may take its dims, and a product
// its tokens, in any order, so a thread loads 16 consecutive bytes of a row and calls them the elements that its place
// in a fragment wants: nothing goes through shared memory. Each warp has a tile of 16 tokens in registers, 16 loads a
// thread at a head size of 128, and loads the next tile's K while it works on this one's V.
// Grid and macros as there, with COLUMNS 8 or 16; GROUPS (1, 2, 4) of so many columns, each with its own warps, which
// read the same tokens; STAGED (1: queries lie in shared memory); DRAFTS (0: one query token a sequence) and WHOLE (1: block_size is a multiple of 16, so a tile
// lies in one block).

#if __CUDA_ARCH__ < 800
#error "16-bit tensor cores of this shape start at sm_80; decode_attention.cu takes the same arguments"
#endif

#define PARTS 1
#include "number_formats.cuh"
#include "decode_pieces.cuh"
#include "decode_shares.cuh"
#include "decode_fragments.cuh"

#define BANDS (COLUMNS / 8)
#define STEP (WARPS / GROUPS * TILE)  // tokens that the CTA's warps work on at a time
#define PLACES (WHOLE ? 1 : 6)        // places a thread looks up: of the whole tile, or of its tokens of K and of V
#define LATE (DRAFTS && (HEAD_DIM == 256 || !WHOLE))  // no registers for the V of one tile and the K of the next
#define EVENED (QUERY == 2 && STORED > 2)  // bfloat16 queries become float16, by a power of 2 for each column

// The 6 tokens of a tile that a thread loads: 2 of K, 4 of V.
static __device__ __forceinline__ u32 token_of(int place, u32 lane) {
  return place < 2 ? lane / 4 + 8 * place : 2 * (lane % 4) + (place - 2) % 2 + (place - 2) / 2 * 8;
}

// A thread's tokens of one tile: where their blocks are.
struct tile_t {
  u32 at;
  int ids[PLACES];
};

static __device__ __forceinline__ tile_t look_up(const batch_t& b, const piece_t& piece, u32 at) {
  tile_t tile{at, {}};
  if (at >= piece.end) return tile;
#pragma unroll
  for (int p = 0; p < PLACES; ++p) {
    const u32 position = WHOLE ? at : at + token_of(p, threadIdx.x % 32);
    tile.ids[p] = piece.span.entries[column_of(b, position < piece.end ? position : piece.end - 1)];
  }
  return tile;
}

static __device__ __forceinline__ u64 offset_of(const batch_t& b, const piece_t& piece, const tile_t& tile, int place,
                                                u64 block, u64 token) {
  const u32 in = token_of(place, threadIdx.x % 32), position = tile.at + in;
  if (WHOLE) return offset_of(b, tile.ids[0], tile.at, block, token) + in * token;
  return offset_of(b, tile.ids[place], position < piece.end ? position : piece.end - 1, block, token);
}

// Seen by a query, in this piece and in a block of the pool.
static __device__ __forceinline__ bool is_live(const batch_t& b, const piece_t& piece, const tile_t& tile, int place,
                                               const seen_t& seen) {
  const u32 position = tile.at + token_of(place, threadIdx.x % 32);
  return (u32)tile.ids[WHOLE ? 0 : place] < b.blocks && position >= seen.first && position < seen.stop &&
         position < piece.end;
}

// Queries of a warp's columns as the other factor of K's fragments; STAGED: in shared memory, in the place of the warp's
// sums, which are written once the queries are used up. `units`: what EVENED columns were divided by.
struct queries_t {
#if STAGED
  uint2* pairs;
#else
  uint2 pairs[BANDS * HEAD_DIM / 16];
#endif
  float units[BANDS][2];

  __device__ __forceinline__ uint2& at(int n, int m) {
    const int place = n * (HEAD_DIM / 16) + m;
#if STAGED
    return pairs[place * 32 + threadIdx.x % 32];
#else
    return pairs[place];
#endif
  }
};

static __device__ __forceinline__ void load_queries(const batch_t& b, u32 i, u32 kv_head, u32 first, queries_t& q) {
  const u32 row = threadIdx.x % 32 / 4, lane = threadIdx.x % 4;
#pragma unroll
  for (int n = 0; n < BANDS; ++n) {
    const u32 column = first + n * 8 + row, j = token_of_column(b, column);
    const element* const from = b.queries + (i64)i * b.query_stride + j * b.query_token_stride +
                                (i64)(kv_head * b.group + column - j * b.group) * b.query_head_stride;
    const bool there = column < columns_of(b);
    u32 pairs[HEAD_DIM / 16][2];
#pragma unroll
    for (int m = 0; m < HEAD_DIM / 16; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const u32 at = m / (EACH / 4) * 4 * EACH + lane * EACH + m % (EACH / 4) * 4 + 2 * half;
        pairs[m][half] = there ? from[at] | (u32)from[at + 1] << 16 : 0;
      }
#if EVENED
    float most = 0;
#pragma unroll
    for (int m = 0; m < HEAD_DIM / 16; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        most = fmaxf(most, fmaxf(fabsf(decode<2>(pairs[m][half] & 0xffff)), fabsf(decode<2>(pairs[m][half] >> 16))));
#pragma unroll
    for (int step = 1; step < 4; step *= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, step));
    // The largest becomes 2^14 .. 2^15; infinities, and what is almost one, stay what they are.
    const u32 exponent = __float_as_uint(most) >> 23;
    const u32 unit = exponent > 254 || exponent < 24 ? 127 : exponent - 14;
    const float factor = __uint_as_float((254 - unit) << 23);
#pragma unroll
    for (int m = 0; m < HEAD_DIM / 16; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const u32 two = pairs[m][half];
        pairs[m][half] = packed(decode<2>(two & 0xffff) * factor, decode<2>(two >> 16) * factor);
      }
#pragma unroll
    for (int h = 0; h < 2; ++h) q.units[n][h] = __shfl_sync(~0u, __uint_as_float(unit << 23), (2 * lane + h) * 4);
#endif
#pragma unroll
    for (int m = 0; m < HEAD_DIM / 16; ++m) q.at(n, m) = make_uint2(pairs[m][0], pairs[m][1]);
  }
}

// K, V and scales of one tile.
struct loaded_t {
  u32 k[2][CHUNKS][4], v[4][LOADS][WORDS];
#if SCALES
  float k_scale[2], v_scale[2];
#endif
};

static __device__ __forceinline__ void load_keys(const batch_t& b, const piece_t& piece, u32 kv_head, const tile_t& tile,
                                                 loaded_t& x) {
  const char* const keys = b.k + kv_head * b.head_stride + threadIdx.x % 4 * 16;
#pragma unroll
  for (int p = 0; p < 2; ++p) {
    const char* const from = keys + offset_of(b, piece, tile, p, b.block_stride, b.token_stride);
#pragma unroll
    for (int c = 0; c < CHUNKS; ++c) load_words(from + c * 64, x.k[p][c]);
  }
}

static __device__ __forceinline__ void load_values(const batch_t& b, const piece_t& piece, u32 kv_head,
                                                   const tile_t& tile, loaded_t& x) {
#if SCALES
#pragma unroll
  for (int p = 0; p < 2; ++p) {
    const u64 at = offset_of(b, piece, tile, p, b.scale_block_stride, b.scale_token_stride) + kv_head * b.scale_head_stride;
    x.k_scale[p] = __ldg((const float*)(b.k_scales + at));
    x.v_scale[p] = __ldg((const float*)(b.v_scales + at));
  }
#endif
  const char* const values = b.v + kv_head * b.head_stride + threadIdx.x % 32 / 4 * (WORDS * 4);
#pragma unroll
  for (int p = 0; p < 4; ++p) {
    const char* const from = values + offset_of(b, piece, tile, p + 2, b.block_stride, b.token_stride);
#pragma unroll
    for (int h = 0; h < LOADS; ++h) load_words(from + h * WORDS * 32, x.v[p][h]);
  }
}

// What a warp has of its columns: O^T in fragments, and of each column the maximum and the sum of weights.
struct warp_sums_t {
  float sums[BANDS][HEAD_DIM / 16][4];
  float maxima[BANDS][2], weights[BANDS][2];
};

#include "decode_tile.cuh"

// The sums of a piece, from the warps' tiles into `all`.
static __device__ __forceinline__ void sum_up(const batch_t& b, const piece_t& piece, u32 i, sums_t& all) {
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, kv_head = blockIdx.x;
  const u32 first = (blockIdx.z * GROUPS + warp % GROUPS) * COLUMNS;
  warp_sums_t own = {};
#pragma unroll
  for (int n = 0; n < BANDS; ++n) own.maxima[n][0] = own.maxima[n][1] = NEVER;
  tile_t tile = look_up(b, piece, piece.begin + warp / GROUPS * TILE);
  queries_t q;
#if STAGED
  q.pairs = (uint2*)all.sums[warp];
#endif
  load_queries(b, i, kv_head, first, q);
  loaded_t x;
  if (tile.at < piece.end) {
    load_keys(b, piece, kv_head, tile, x);
    load_values(b, piece, kv_head, tile, x);
  }
  tile_t next = look_up(b, piece, tile.at + STEP);
  while (tile.at < piece.end) {
    float s[BANDS][4];
    multiply_keys(q, x, s);
    const weighing_t given = weighing_of(x);
    if (!LATE && next.at < piece.end) load_keys(b, piece, kv_head, next, x);
    u32 p[BANDS][2];
    const bool full = weigh(b, piece, tile, first, q, given, s, p, all, own);
    add_values(b, piece, tile, first, full, p, x, all, own);
    if (LATE && next.at < piece.end) load_keys(b, piece, kv_head, next, x);
    if (next.at < piece.end) load_values(b, piece, kv_head, next, x);
    tile = next;
    next = look_up(b, piece, tile.at + STEP);
  }
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
        float* const to = &all.sums[warp][column][(m / (OF_LOAD / 2) * 8 + lane / 4) * OF_LOAD + m % (OF_LOAD / 2) * 2];
        to[0] = own.sums[n][m][h];
        to[1] = own.sums[n][m][h + 2];
      }
    }
}

extern "C" __global__ void __launch_bounds__(WARPS * 32, CTAS) decode_tensor(batch_t b) {
  __shared__ sums_t all;
  for_each_piece(b, all, [&](const piece_t& piece, u32 i) { sum_up(b, piece, i, all); });
}
