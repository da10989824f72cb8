// Tiles of 16 tokens: where their blocks are, and which tokens of one a thread works on.

#define STEP (WARPS / GROUPS * TILE)  // tokens that the CTA's warps work on at a time

// The 6 tokens of a tile that a thread loads: 2 of K, 4 of V.
static __device__ __forceinline__ u32 token_of(int place, u32 lane) {
  return place < 2 ? lane / 4 + 8 * place : 2 * (lane % 4) + (place - 2) % 2 + (place - 2) / 2 * 8;
}

// A thread's tokens of one tile: where their blocks are.
struct tile_t {
  u32 at;
  int ids[PLACES];
};

static __device__ __forceinline__ u32 shared_address(const void* at) { return (u32)__cvta_generic_to_shared(at); }

// Without a "memory" that would have the compiler load queries again and again: whatever touches ids is volatile, and
// stays in its order.
__device__ __forceinline__ void copy4(void* to, const void* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(to)), "l"(from));
}

// Where the first tile of a warp begins.
static __device__ __forceinline__ u32 first_tile(const piece_t& piece) {
  return piece.begin + threadIdx.x / 32 / GROUPS * TILE;
}

#if WHOLE
// Blocks of a warp's next tiles, two times 32 of them, in shared memory: copied there long before they are wanted. In
// registers they would share the counter of outstanding loads with K and V, and asking for one would wait for those.
struct tiles_t {
  int* ids;
  u32 from;  // where the first of them begins

  __device__ __forceinline__ void copy(const batch_t& b, const piece_t& piece, u32 n) {
    n += threadIdx.x % 32;
    const u32 at = from + n * STEP;
    if (at < piece.end) copy4(ids + n % 64, piece.span.entries + column_of(b, at));
  }
  // Those of a piece; `ring` 0 and 1 by turns, the other one may be of the piece before.
  __device__ __forceinline__ void begin(const batch_t& b, const piece_t& piece, u32 ring, sums_t& all) {
    asm volatile("bar.warp.sync 0xffffffff;");  // until what these were has been read
    ids = all.ids[threadIdx.x / 32][ring], from = first_tile(piece);
    copy(b, piece, 0);
    copy(b, piece, 32);
  }
  // The id of a tile that has been asked for less than 8 tiles ago.
  __device__ __forceinline__ int known(u32 at) const {
    int id;
    asm volatile("ld.shared.s32 %0, [%1];" : "=r"(id) : "r"(shared_address(ids + (at - from) / STEP % 64)));
    return id;
  }
  // Of tiles one after another.
  __device__ __forceinline__ int id(const batch_t& b, const piece_t& piece, u32 at) {
    const u32 n = (at - from) / STEP;
    if (n % 32 == 0) asm volatile("cp.async.wait_all;\nbar.warp.sync 0xffffffff;");
    if (n % 32 == 8 && n > 32) copy(b, piece, n + 24);
    return known(at);
  }
};

// Bytes from the first block's beginning to the tile's; a block that is not in the pool is not followed.
__device__ __forceinline__ u64 offset_of(const batch_t& b, int id, u32 at) {
  const u64 block = (u64)((u32)id < b.blocks ? (u32)id : 0) * (u32)b.block_stride;
  return LOG2_BLOCK == 4 ? block : block + place_of(b, at) * (u32)b.token_stride;
}
#if SCALES
static __device__ __forceinline__ u64 scale_offset_of(const batch_t& b, int id, u32 at) {
  const u64 block = (u64)((u32)id < b.blocks ? (u32)id : 0) * (u32)b.scale_block_stride;
  return LOG2_BLOCK == 4 ? block : block + place_of(b, at) * (u32)b.scale_token_stride;
}
#endif
#endif

// Seen by a query, in this piece and in a block of the pool.
static __device__ __forceinline__ bool is_live(const batch_t& b, const piece_t& piece, const tile_t& tile, int place,
                                               const seen_t& seen) {
  const u32 position = tile.at + token_of(place, threadIdx.x % 32);
  return (u32)tile.ids[WHOLE ? 0 : place] < b.blocks && position >= seen.first && position < seen.stop &&
         position < piece.end;
}
