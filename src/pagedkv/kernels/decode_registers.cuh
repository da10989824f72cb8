// How tiles come into registers, K and V of one tile: the next tile's K comes when this one's is used up. Each thread
// loads what it uses. Behind decode_places.cuh.

// The tile at `at`, the next one of a warp.
#if WHOLE
static __device__ __forceinline__ tile_t follow(const batch_t& b, const piece_t& piece, tiles_t& tiles, u32 at) {
  return {at, {tiles.id(b, piece, at)}};
}
#else
struct tiles_t {
  __device__ __forceinline__ void begin(const batch_t&, const piece_t&, u32, sums_t&) {}
};
static __device__ __forceinline__ tile_t follow(const batch_t& b, const piece_t& piece, tiles_t&, u32 at) {
  tile_t tile{at, {}};
  if (at >= piece.end) return tile;
#pragma unroll
  for (int p = 0; p < PLACES; ++p) {
    const u32 position = at + token_of(p, threadIdx.x % 32);
    tile.ids[p] = piece.span.entries[column_of(b, position < piece.end ? position : piece.end - 1)];
  }
  return tile;
}
#endif

// K, V and scales of one tile, and where those of a thread begin in the first block.
struct loaded_t {
  const char *keys, *values;
  u32 k[2][CHUNKS][4], v[4][LOADS][WORDS];
  float scales[4];

  __device__ __forceinline__ void aim(const batch_t& b, u32 kv_head) {
    const u32 lane = threadIdx.x % 32;
    keys = b.k + kv_head * b.head_stride + lane % 4 * 16;
    values = b.v + kv_head * b.head_stride + lane / 4 * (WORDS * 4);
#if WHOLE
    keys += token_of(0, lane) * b.token_stride;
    values += token_of(2, lane) * b.token_stride;
#endif
  }

  __device__ __forceinline__ void key(int p, int c, u32 (&x)[4]) const {
#pragma unroll
    for (int w = 0; w < 4; ++w) x[w] = k[p][c][w];
  }
  __device__ __forceinline__ void value(int t, int h, u32 (&x)[WORDS]) const {
#pragma unroll
    for (int w = 0; w < WORDS; ++w) x[w] = v[t][h][w];
  }
  __device__ __forceinline__ void clear_value(int t, int h) {
#pragma unroll
    for (int w = 0; w < WORDS; ++w) v[t][h][w] = 0;
  }
  __device__ __forceinline__ float scale(int n) const { return scales[n]; }
};

// Where a thread's row of `place` begins: K of place 0, V of place 2 are those that it aims at.
static __device__ __forceinline__ const char* row_of(const batch_t& b, const piece_t& piece, const tile_t& tile, int place,
                                                     const char* first) {
#if WHOLE
  (void)piece;
  const u32 rows = place < 2 ? 8 * place : (place - 2) % 2 + (place - 2) / 2 * 8;
  return first + offset_of(b, tile.ids[0], tile.at) + rows * (u32)b.token_stride;
#else
  const u32 position = tile.at + token_of(place, threadIdx.x % 32);
  return first + offset_of(b, tile.ids[place], position < piece.end ? position : piece.end - 1, b.block_stride, b.token_stride);
#endif
}

static __device__ __forceinline__ void load_keys(const batch_t& b, const piece_t& piece, const tile_t& tile, loaded_t& x) {
  if (tile.at >= piece.end) return;
#pragma unroll
  for (int p = 0; p < 2; ++p) {
    const char* const from = row_of(b, piece, tile, p, x.keys);
#pragma unroll
    for (int c = 0; c < CHUNKS; ++c) load_words(from + c * 64, x.k[p][c]);
  }
}

static __device__ __forceinline__ void load_values(const batch_t& b, const piece_t& piece, const tile_t& tile, loaded_t& x) {
  if (tile.at >= piece.end) return;
#if SCALES
  const u64 head = blockIdx.x * b.scale_head_stride;
#pragma unroll
  for (int p = 0; p < 2; ++p) {
    const u32 in = token_of(p, threadIdx.x % 32);
#if WHOLE
    const u64 at = head + scale_offset_of(b, tile.ids[0], tile.at) + in * (u32)b.scale_token_stride;
#else
    const u32 position = tile.at + in < piece.end ? tile.at + in : piece.end - 1;
    const u64 at = head + offset_of(b, tile.ids[p], position, b.scale_block_stride, b.scale_token_stride);
#endif
    x.scales[p] = __ldg((const float*)(b.k_scales + at));
    x.scales[2 + p] = __ldg((const float*)(b.v_scales + at));
  }
#endif
#pragma unroll
  for (int t = 0; t < 4; ++t) {
    const char* const from = row_of(b, piece, tile, t + 2, x.values);
#pragma unroll
    for (int h = 0; h < LOADS; ++h) load_words(from + h * WORDS * 32, x.v[t][h]);
  }
}
