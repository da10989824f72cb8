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

// Seen by a query, in this piece and in a block of the pool.
static __device__ __forceinline__ bool is_live(const batch_t& b, const piece_t& piece, const tile_t& tile, int place,
                                               const seen_t& seen) {
  const u32 position = tile.at + token_of(place, threadIdx.x % 32);
  return (u32)tile.ids[WHOLE ? 0 : place] < b.blocks && position >= seen.first && position < seen.stop &&
         position < piece.end;
}
