// How tiles come into shared memory, STAGES of them for each warp: where columns leave no registers for K and V, the bulk
// copy engine of sm_90 brings them past registers and first level cache. Behind decode_places.cuh; tiles are WHOLE.
//
// One lane asks for a tile, as boxes of 128 bytes of 16 tokens; the host made the maps that say where those are, and that
// a block which is not in the pool has zeros. A barrier a stage counts the bytes that have come. The engine turns 16-byte
// units within 128 bytes by three bits of their address, so that those who read fragments meet in no bank.

#define LINES (OF_TOKEN / 128)  // boxes of K, and of V

struct alignas(64) tensor_map_t {
  u64 opaque[16];
};
struct maps_t {
  tensor_map_t k, v;
};

static __device__ __forceinline__ void begin_barrier(u64* barrier) {
  // Bytes are announced by one lane; with SCALES each lane's copy of a scale counts too.
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(SCALES ? 33 : 1) : "memory");
}

static __device__ __forceinline__ void await_barrier(u64* barrier, u32 turn) {
  asm volatile(
      "{\n.reg .pred there;\nagain:\n"
      "mbarrier.try_wait.parity.shared.b64 there, [%0], %1;\n@!there bra again;\n}" ::"r"(shared_address(barrier)),
      "r"(turn)
      : "memory");
}

// What this thread wrote or read before, the engine may overwrite.
static __device__ __forceinline__ void give_to_engine() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncwarp();
}

static __device__ __forceinline__ void copy_box(char* to, const tensor_map_t& map, u32 dim, u32 token, u32 head, int block,
                                                u64* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], "
      "[%6];" ::"r"(shared_address(to)),
      "l"(&map), "r"(dim), "r"(token), "r"(head), "r"(block), "r"(shared_address(barrier))
      : "memory");
}

// A tile in shared memory.
struct loaded_t {
  const maps_t* maps;
  char* stage;
  u64* barrier;
  float* scales;  // of K, then of V

  __device__ __forceinline__ char* place(int part, u32 token, u32 piece) const {
    return stage + part * TILE * OF_TOKEN + piece / 8 * (TILE * 128) + token * 128 + ((piece ^ token) & 7) * 16;
  }
  __device__ __forceinline__ char* value_at(int t, int h) const {
    const u32 lane = threadIdx.x % 32;
    return place(1, token_of(t + 2, lane), h * 8 + lane / 4);
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
  // K of 16 tokens and 16 dims, V of 16 dims and 16 tokens.
  __device__ __forceinline__ void key_fragment(int m, u32 (&a)[4]) const {
    const u32 lane = threadIdx.x % 32;
    const u32 from = shared_address(place(0, lane % 16, 2 * m + lane / 16));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                 : "r"(from)
                 : "memory");
  }
  __device__ __forceinline__ void value_fragment(int m, u32 (&a)[4]) const {
    const u32 lane = threadIdx.x % 32;
    const u32 from = shared_address(place(1, lane % 8 + lane / 16 * 8, 2 * m + lane / 8 % 2));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                 : "r"(from)
                 : "memory");
  }
  __device__ __forceinline__ void clear_value(int t, int h) { store<16>(value_at(t, h), Bits<16>{}); }
  __device__ __forceinline__ float scale(int n) const {
    return scales[n / 2 * TILE + token_of(n % 2, threadIdx.x % 32)];
  }
};

// The tile at `at`, the next one of a warp, into x.stage, which all lanes have read.
static __device__ __forceinline__ void load_tile(const batch_t& b, const piece_t& piece, tiles_t& tiles, u32 at, loaded_t& x) {
  const int id = tiles.id(b, piece, at);
  if (at >= piece.end) return;
  const u32 lane = threadIdx.x % 32, token = place_of(b, at);
  if (lane == 0) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared_address(x.barrier)), "n"(STAGE)
                 : "memory");
#pragma unroll
    for (int line = 0; line < LINES; ++line)
      copy_box(x.place(0, 0, line * 8), x.maps->k, line * (HEAD_DIM / LINES), token, blockIdx.x, id, x.barrier);
#pragma unroll
    for (int line = 0; line < LINES; ++line)
      copy_box(x.place(1, 0, line * 8), x.maps->v, line * (HEAD_DIM / LINES), token, blockIdx.x, id, x.barrier);
  }
#if SCALES
  const u32 in = lane % TILE, part = lane / TILE;
  const u64 behind = scale_offset_of(b, id, at) + in * (u32)b.scale_token_stride + blockIdx.x * b.scale_head_stride;
  copy4(x.scales + lane, (part ? b.v_scales : b.k_scales) + behind);
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_address(x.barrier)) : "memory");
#endif
}
