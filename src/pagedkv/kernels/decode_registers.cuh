// How tiles come into registers, K and V of one tile: the next tile's K comes when this one's is used up. Each thread
// loads what it uses. Behind decode_places.cuh.

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

// K, V and scales of one tile.
struct loaded_t {
  u32 k[2][CHUNKS][4], v[4][LOADS][WORDS];
  float scales[4];

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

static __device__ __forceinline__ void load_keys(const batch_t& b, const piece_t& piece, u32 kv_head, const tile_t& tile,
                                                 loaded_t& x) {
  if (tile.at >= piece.end) return;
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
  if (tile.at >= piece.end) return;
#if SCALES
#pragma unroll
  for (int p = 0; p < 2; ++p) {
    const u64 at = offset_of(b, piece, tile, p, b.scale_block_stride, b.scale_token_stride) + kv_head * b.scale_head_stride;
    x.scales[p] = __ldg((const float*)(b.k_scales + at));
    x.scales[2 + p] = __ldg((const float*)(b.v_scales + at));
  }
#endif
  const char* const values = b.v + kv_head * b.head_stride + threadIdx.x % 32 / 4 * (WORDS * 4);
#pragma unroll
  for (int t = 0; t < 4; ++t) {
    const char* const from = values + offset_of(b, piece, tile, t + 2, b.block_stride, b.token_stride);
#pragma unroll
    for (int h = 0; h < LOADS; ++h) load_words(from + h * WORDS * 32, x.v[t][h]);
  }
}
