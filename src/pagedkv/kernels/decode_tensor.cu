// decode_attention.cu for 16-bit K, V and queries, on tensor cores straight from registers; from sm_80 on.
//
// S^T = K Q^T and O^T = V^T P^T with tokens and dims in M, heads in N. A dot product may take its dims, and a product
// its tokens, in any order, so a thread loads 16 consecutive bytes of a row and calls them the elements that its place
// in a fragment wants: nothing goes through shared memory. Each warp has a tile of 16 tokens in registers, 16 loads a
// thread at a head size of 128, and loads the next tile's K while it works on this one's V.
// Grid and macros as there, with HEADS 8 or 16 and all query heads in one CTA, no SCALES, and WHOLE (1: block_size is a
// multiple of 16, so a tile lies in one block).

#if __CUDA_ARCH__ < 800
#error "16-bit tensor cores of this shape start at sm_80; decode_attention.cu takes the same arguments"
#endif

#define PARTS 1
#include "number_formats.cuh"
#include "decode_pieces.cuh"

#define CHUNKS (HEAD_DIM / 32)  // of K: 4 threads a token, 16 bytes each
#define HALVES (HEAD_DIM / 64)  // of V: 8 threads a token
#define COLUMNS (HEADS / 8)
#define PLACES (WHOLE ? 1 : 6)  // places a thread looks up: of the whole tile, or of its tokens of K and of V

// The 6 tokens of a tile that a thread loads: 2 of K, 4 of V.
static __device__ __forceinline__ u32 token_of(int place, u32 lane) {
  return place < 2 ? lane / 4 + 8 * place : 2 * (lane % 4) + (place - 2) % 2 + (place - 2) / 2 * 8;
}

static __device__ __forceinline__ uint4 load16(const char* from) {
  uint4 x;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
               : "l"(from));
  return x;
}

static __device__ __forceinline__ void multiply(float (&c)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
#if QUERY == 1
#define KINDS "f32.f16.f16.f32"
#else
#define KINDS "f32.bf16.bf16.f32"
#endif
  asm volatile("mma.sync.aligned.m16n8k16.row.col." KINDS
               " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// Two weights of a token as 16-bit numbers, turned so that a thread has two tokens of a head.
static __device__ __forceinline__ u32 turned(float low, float high) {
  u32 packed, turned;
#if QUERY == 1
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
#else
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
#endif
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(turned) : "r"(packed));
  return turned;
}

static __device__ __forceinline__ void look_up(const batch_t& b, const piece_t& piece, u32 tile, int (&ids)[PLACES]) {
  if (tile >= piece.end) return;
#pragma unroll
  for (int p = 0; p < PLACES; ++p) {
    const u32 position = WHOLE ? tile : tile + token_of(p, threadIdx.x % 32);
    ids[p] = piece.entries[column_of(b, position < piece.end ? position : piece.end - 1)];
  }
}

static __device__ __forceinline__ const char* row_of(const batch_t& b, const piece_t& piece, u32 tile, int place,
                                                     const int (&ids)[PLACES], const char* part) {
  u64 offset;
  const u32 token = token_of(place, threadIdx.x % 32);
  if (WHOLE) {
    find(b, ids[0], tile, offset);
    return part + offset + token * b.token_stride;
  }
  const u32 position = tile + token;
  find(b, ids[place], position < piece.end ? position : piece.end - 1, offset);
  return part + offset;
}

static __device__ __forceinline__ bool is_live(const batch_t& b, const piece_t& piece, u32 tile, int place,
                                               const int (&ids)[PLACES]) {
  const u32 position = tile + token_of(place, threadIdx.x % 32);
  return (u32)ids[WHOLE ? 0 : place] < b.blocks && position >= piece.first && position < piece.end;
}

static __device__ __forceinline__ void sum_up(const batch_t& b, const piece_t& piece, u32 i, u32 kv_head, sums_t& all) {
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = lane / 4, column = lane % 4;

  u32 q[COLUMNS][CHUNKS][4];
#pragma unroll
  for (int n = 0; n < COLUMNS; ++n) {
    const u32 head = n * 8 + row;
    const element* from =
        b.queries + (i64)i * b.query_stride + (i64)(kv_head * b.group + head) * b.query_head_stride + column * 8;
#pragma unroll
    for (int c = 0; c < CHUNKS; ++c)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        q[n][c][e] = head < b.group ? from[c * 32 + 2 * e] | (u32)from[c * 32 + 2 * e + 1] << 16 : 0;
  }
  const char* const keys = b.k + kv_head * b.head_stride + column * 16;
  const char* const values = b.v + kv_head * b.head_stride + row * 16;

  float sums[COLUMNS][HALVES * 4][4] = {};
  float maxima[COLUMNS][2], weights[COLUMNS][2] = {};
#pragma unroll
  for (int n = 0; n < COLUMNS; ++n) maxima[n][0] = maxima[n][1] = NEVER;

  uint4 k[2][CHUNKS], v[4][HALVES];
  int ids[PLACES], next_ids[PLACES];
  auto load_keys = [&](u32 tile, const int(&at)[PLACES]) {
#pragma unroll
    for (int p = 0; p < 2; ++p) {
      const char* from = row_of(b, piece, tile, p, at, keys);
#pragma unroll
      for (int c = 0; c < CHUNKS; ++c) k[p][c] = load16(from + c * 64);
    }
  };
  auto load_values = [&](u32 tile, const int(&at)[PLACES]) {
#pragma unroll
    for (int p = 0; p < 4; ++p) {
      const char* from = row_of(b, piece, tile, p + 2, at, values);
#pragma unroll
      for (int h = 0; h < HALVES; ++h) v[p][h] = load16(from + h * 128);
    }
  };

  u32 tile = piece.begin + warp * TILE;
  look_up(b, piece, tile, ids);
  if (tile < piece.end) {
    load_keys(tile, ids);
    load_values(tile, ids);
  }
  look_up(b, piece, tile + WARPS * TILE, next_ids);
  for (; tile < piece.end; tile += WARPS * TILE) {
    const u32 next = tile + WARPS * TILE;
    float s[COLUMNS][4] = {};
#pragma unroll
    for (int c = 0; c < CHUNKS; ++c)
#pragma unroll
      for (int n = 0; n < COLUMNS; ++n) {
        multiply(s[n], k[0][c].x, k[1][c].x, k[0][c].y, k[1][c].y, q[n][c][0], q[n][c][1]);
        multiply(s[n], k[0][c].z, k[1][c].z, k[0][c].w, k[1][c].w, q[n][c][2], q[n][c][3]);
      }
    if (next < piece.end) load_keys(next, next_ids);

    const bool live[2] = {is_live(b, piece, tile, 0, ids), is_live(b, piece, tile, 1, ids)};
    const bool full = __all_sync(~0u, live[0] && live[1]);
    u32 p[COLUMNS][2];
#pragma unroll
    for (int n = 0; n < COLUMNS; ++n) {
      float shrink[2];
#pragma unroll
      for (int e = 0; e < 4; ++e) s[n][e] = full || live[e / 2] ? s[n][e] * (float)b.score_scale : NEVER;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float largest = fmaxf(s[n][h], s[n][h + 2]);
#pragma unroll
        for (int step = 4; step < 32; step *= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, step));
        largest = fmaxf(largest, maxima[n][h]);
        // Where nothing was live yet, NEVER - NEVER would be no number.
        const float base = largest == NEVER ? 0 : largest;
        shrink[h] = power(maxima[n][h] - base);
        maxima[n][h] = largest;
        s[n][h] = power(s[n][h] - base);
        s[n][h + 2] = power(s[n][h + 2] - base);
        weights[n][h] = weights[n][h] * shrink[h] + (s[n][h] + s[n][h + 2]);
      }
      p[n][0] = turned(s[n][0], s[n][1]);
      p[n][1] = turned(s[n][2], s[n][3]);
      if (__any_sync(~0u, shrink[0] != 1 || shrink[1] != 1)) {
#pragma unroll
        for (int m = 0; m < HALVES * 4; ++m)
#pragma unroll
          for (int e = 0; e < 4; ++e) sums[n][m][e] *= shrink[e % 2];
      }
    }

    if (!full) {  // a weight of 0 does not silence a NaN
#pragma unroll
      for (int j = 0; j < 4; ++j)
        if (!is_live(b, piece, tile, j + 2, ids))
#pragma unroll
          for (int h = 0; h < HALVES; ++h) v[j][h] = make_uint4(0, 0, 0, 0);
    }
#pragma unroll
    for (int h = 0; h < HALVES; ++h)
#pragma unroll
      for (int m = 0; m < 4; ++m) {
        u32 x[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) x[j] = m == 0 ? v[j][h].x : m == 1 ? v[j][h].y : m == 2 ? v[j][h].z : v[j][h].w;
        const u32 a0 = __byte_perm(x[0], x[1], 0x5410), a1 = __byte_perm(x[0], x[1], 0x7632);
        const u32 a2 = __byte_perm(x[2], x[3], 0x5410), a3 = __byte_perm(x[2], x[3], 0x7632);
#pragma unroll
        for (int n = 0; n < COLUMNS; ++n) multiply(sums[n][h * 4 + m], a0, a1, a2, a3, p[n][0], p[n][1]);
      }
    if (next < piece.end) load_values(next, next_ids);
#pragma unroll
    for (int j = 0; j < PLACES; ++j) ids[j] = next_ids[j];
    look_up(b, piece, next + WARPS * TILE, next_ids);
  }

#pragma unroll
  for (int n = 0; n < COLUMNS; ++n)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const u32 head = n * 8 + 2 * column + h;
#pragma unroll
      for (int step = 4; step < 32; step *= 2) weights[n][h] += __shfl_xor_sync(~0u, weights[n][h], step);
      if (row == 0) all.maxima[warp][head] = maxima[n][h], all.weights[warp][head] = weights[n][h];
#pragma unroll
      for (int m = 0; m < HALVES * 4; ++m) {
        float* to = &all.sums[warp][head][m / 4 * 64 + row * 8 + m % 4 * 2];
        to[0] = sums[n][m][h];
        to[1] = sums[n][m][h + 2];
      }
    }
}

extern "C" __global__ void __launch_bounds__(WARPS * 32, CTAS) decode_tensor(batch_t b) {
  __shared__ sums_t all;
  const u32 i = blockIdx.x / (u32)b.kv_heads, kv_head = blockIdx.x - i * (u32)b.kv_heads;
  const piece_t piece = piece_of(b, i, blockIdx.y, gridDim.y);
  sum_up(b, piece, i, kv_head, all);
  __syncthreads();
  finish(b, i, kv_head, all);
}
