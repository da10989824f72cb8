// How tiles come into shared memory, STAGES of them for each warp: copied past the registers, where columns leave none
// for K and V. Behind decode_places.cuh.

static __device__ __forceinline__ u32 shared_address(const void* at) { return (u32)__cvta_generic_to_shared(at); }

// 16 bytes past the registers and the first level cache, or 4.
static __device__ __forceinline__ void copy16(char* to, const char* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from) : "memory");
}
#if SCALES
static __device__ __forceinline__ void copy4(char* to, const char* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(to)), "l"(from) : "memory");
}
#endif

static __device__ __forceinline__ void copies_begun() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Until only those of the 2 * STAGES - 1 last calls of copies_begun are under way, in any lane.
static __device__ __forceinline__ void await_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(2 * STAGES - 1) : "memory");
  __syncwarp();
}

// A tile on its way: 8 lanes copy 128 bytes of a token, so that lines are read and written whole. Those of a lane are
// tokens lane / 8 + 4 n.
struct coming_t {
  u32 at;
  int ids[COMING];
};

static __device__ __forceinline__ coming_t look_ahead(const batch_t& b, const piece_t& piece, u32 at) {
  coming_t tile{at, {}};
  if (at >= piece.end) return tile;
#pragma unroll
  for (int n = 0; n < COMING; ++n) {
    const u32 position = WHOLE ? at : at + threadIdx.x % 32 / 8 + 4 * n;
    tile.ids[n] = piece.span.entries[column_of(b, position < piece.end ? position : piece.end - 1)];
  }
  return tile;
}

static __device__ __forceinline__ u64 offset_of(const batch_t& b, const piece_t& piece, const coming_t& tile, int n,
                                                u64 block, u64 token) {
  const u32 in = threadIdx.x % 32 / 8 + 4 * n, position = tile.at + in;
  if (WHOLE) return offset_of(b, tile.ids[0], tile.at, block, token) + in * token;
  return offset_of(b, tile.ids[n], position < piece.end ? position : piece.end - 1, block, token);
}

// A tile in shared memory. 16 bytes of a token lie where neither those who copy a line nor those who read fragments meet
// in a bank: their number within 128 bytes, turned by the token's.
struct loaded_t {
  char* stage;  // the warp's

  __device__ __forceinline__ char* place(int from, u32 token, u32 piece) const {
    return stage + from + token * OF_TOKEN + (piece / 8 * 8 + (piece % 8 ^ (token & 6) ^ (token & 1) * 4)) * 16;
  }
  __device__ __forceinline__ char* value_at(int t, int h) const {
    const u32 lane = threadIdx.x % 32;
    return place(TILE * OF_TOKEN, token_of(t + 2, lane), h * 8 + lane / 4);
  }
  __device__ __forceinline__ float* scale_at(int part, u32 token) const {
    return (float*)(stage + 2 * TILE * OF_TOKEN) + part * TILE + token;
  }
  __device__ __forceinline__ int* id_at(u32 token) const {
    return (int*)(stage + 2 * TILE * OF_TOKEN + OF_SCALES) + token;
  }

  __device__ __forceinline__ void key(int p, int c, u32 (&x)[4]) const {
    const u32 lane = threadIdx.x % 32;
    const Bits<16> bits = load<16>(place(0, token_of(p, lane), c * 4 + lane % 4));
#pragma unroll
    for (int w = 0; w < 4; ++w) x[w] = bits.words[w];
  }
  __device__ __forceinline__ void value(int t, int h, u32 (&x)[4]) const {
    const Bits<16> bits = load<16>(value_at(t, h));
#pragma unroll
    for (int w = 0; w < 4; ++w) x[w] = bits.words[w];
  }
  __device__ __forceinline__ void clear_value(int t, int h) { store<16>(value_at(t, h), Bits<16>{}); }
  __device__ __forceinline__ float scale(int n) const {
    return *scale_at(n / 2, token_of(n % 2, threadIdx.x % 32));
  }
  __device__ __forceinline__ tile_t tile(u32 at) const {
    tile_t found{at, {}};
#pragma unroll
    for (int p = 0; p < PLACES; ++p) found.ids[p] = *id_at(WHOLE ? 0 : token_of(p, threadIdx.x % 32));
    return found;
  }
};

static __device__ __forceinline__ void load_part(const batch_t& b, const piece_t& piece, const char* part,
                                                 const coming_t& tile, loaded_t& x, int to) {
  const u32 lane = threadIdx.x % 32;
#pragma unroll
  for (int n = 0; n < 4; ++n) {
    const char* const from = part + offset_of(b, piece, tile, n, b.block_stride, b.token_stride) + lane % 8 * 16;
#pragma unroll
    for (int line = 0; line < OF_TOKEN / 128; ++line)
      copy16(x.place(to, lane / 8 + 4 * n, line * 8 + lane % 8), from + line * 128);
  }
}

// The slot's K has been read by all lanes.
static __device__ __forceinline__ void load_keys(const batch_t& b, const piece_t& piece, u32 kv_head, const coming_t& tile,
                                                 loaded_t& x) {
  __syncwarp();
  if (tile.at < piece.end) {
    load_part(b, piece, b.k + kv_head * b.head_stride, tile, x, 0);
#if SCALES
    // Of 8 lanes each copies one: K's scale of a token, or V's.
    const u32 lane = threadIdx.x % 32;
#pragma unroll
    for (int n = 0; n < 4; ++n)
      if (lane % 4 == n) {
        const u64 at =
            offset_of(b, piece, tile, n, b.scale_block_stride, b.scale_token_stride) + kv_head * b.scale_head_stride;
        copy4((char*)x.scale_at(lane % 8 / 4, lane / 8 + 4 * n), (lane % 8 < 4 ? b.k_scales : b.v_scales) + at);
      }
#endif
  }
  copies_begun();
}

// The slot's V has been read, and nothing of its tile is needed any more.
static __device__ __forceinline__ void load_values(const batch_t& b, const piece_t& piece, u32 kv_head,
                                                   const coming_t& tile, loaded_t& x) {
  __syncwarp();
  if (tile.at < piece.end) {
    load_part(b, piece, b.v + kv_head * b.head_stride, tile, x, TILE * OF_TOKEN);
    if (threadIdx.x % 8 == 0)
#pragma unroll
      for (int n = 0; n < 4; ++n) *x.id_at(threadIdx.x % 32 / 8 + 4 * n) = tile.ids[WHOLE ? 0 : n];
  }
  copies_begun();
}
