// Fragments of mma.m16n8k16 from what 16-byte loads of K and V bring, in the 16-bit formats and the 8-bit ones, whose
// numbers float16 holds exactly. Behind number_formats.cuh.

#if STORED < 3
#define EACH 8  // numbers in 16 bytes
#else
#define EACH 16
#endif
#define HALF (QUERY == 1 || STORED > 2)  // products are float16's; else bfloat16's
#define CHUNKS (HEAD_DIM / (4 * EACH))   // loads of K a token and thread: 4 threads a token
#define OF_LOAD (HEAD_DIM / 8 < EACH ? HEAD_DIM / 8 : EACH)  // dims that a load of V brings: 8 threads a token
#define LOADS (HEAD_DIM / 8 / OF_LOAD)
#define WORDS (OF_LOAD * (16 / EACH) / 4)
#define LADDER (STAGES && EACH == 8)  // fragments come by ldmatrix, dims in their order
#define PLACES (WHOLE ? 1 : 6)  // places a thread looks up: of the whole tile, or of its tokens of K and of V

#if STAGES
// Bytes of a token's K or V, and of a tile in shared memory; boxes begin at multiples of 1024.
#define OF_TOKEN (HEAD_DIM * 16 / EACH)
#define STAGE (2 * TILE * OF_TOKEN)
#define OF_SUMS (COLUMNS * HEAD_DIM * 4)
#define OWN_BYTES (STAGES * STAGE > OF_SUMS ? STAGES * STAGE : OF_SUMS)
// Sums are put where the first stages are; the others take tiles of the next piece meanwhile.
#define COVERED ((OF_SUMS + STAGE - 1) / STAGE)
#define FILLED (STAGES > COVERED ? STAGES - COVERED : 0)
#endif

// Registers of a load. L1 keeps it where warps of a CTA read the same tokens.
template <int COUNT>
static __device__ __forceinline__ void load_words(const char* from, u32 (&x)[COUNT]) {
#if GROUPS == 1
#define KEPT ".L1::no_allocate.L2::128B"
#else
#define KEPT
#endif
  if constexpr (COUNT == 4)
    asm volatile("ld.global.nc" KEPT ".v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "l"(from));
  else asm volatile("ld.global.nc" KEPT ".v2.u32 {%0, %1}, [%2];" : "=r"(x[0]), "=r"(x[1]) : "l"(from));
}

// The low or the high two of four 8-bit numbers as float16.
static __device__ __forceinline__ u32 halves(u32 four, bool high) {
  u32 two = four;
#if STORED == 3
#if HAS_FLOAT8
  const unsigned short codes = (unsigned short)(high ? four >> 16 : four);
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(two) : "h"(codes));
#else
  // Moved to float16's place they are 2^8 too small; a NaN would be a number.
  const u32 moved = __byte_perm(four, 0, high ? 0x3424 : 0x1404), wrong = __vcmpeq2(moved & 0x7F007F00u, 0x7F007F00u);
  two = (moved & 0x80008000u) | (moved & 0x7F007F00u) >> 1;
  asm("mul.f16x2 %0, %0, %1;" : "+r"(two) : "r"(0x5C005C00u));
  two |= wrong & 0x7FFF7FFFu;
#endif
#elif STORED == 4
  two = __byte_perm(four, 0, high ? 0x3424 : 0x1404);
#elif STORED == 5
  // 0x64 in front of a byte is 1024 more than it, and the byte, its sign turned, 128 more than the number.
  two = __byte_perm(four ^ 0x80808080u, 0x64646464u, high ? 0x4342 : 0x4140);
  asm("sub.f16x2 %0, %0, %1;" : "+r"(two) : "r"(0x64806480u));
#endif
  return two;
}

// Numbers 2 n and 2 n + 1 of a load.
template <int COUNT>
static __device__ __forceinline__ u32 neighbors(const u32 (&x)[COUNT], int n) {
  return EACH == 8 ? x[n] : halves(x[n / 2], n % 2);
}

// Numbers 2 n and 2 n + 1 of two tokens' loads, from the words x and y that they are in: each has one token's and the
// other's.
__device__ __forceinline__ void across(u32 x, u32 y, int n, u32& even, u32& odd) {
  if (EACH == 8) {
    even = __byte_perm(x, y, 0x5410);
    odd = __byte_perm(x, y, 0x7632);
    return;
  }
  const u32 mixed = __byte_perm(x, y, n % 2 ? 0x7362 : 0x5140);
  even = halves(mixed, false);
  odd = halves(mixed, true);
}

static __device__ __forceinline__ u32 packed(float low, float high) {
  u32 both;
#if HALF
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
#else
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
#endif
  return both;
}

__device__ __forceinline__ float2 unpacked(u32 both) {
#if HALF
  float2 two;
  asm("cvt.f32.f16 %0, %1;" : "=f"(two.x) : "h"((unsigned short)both));
  asm("cvt.f32.f16 %0, %1;" : "=f"(two.y) : "h"((unsigned short)(both >> 16)));
  return two;
#else
  return make_float2(__uint_as_float(both << 16), __uint_as_float(both & 0xffff0000u));
#endif
}

// Two columns' weights of a token, turned so that a thread has two tokens' of a column.
static __device__ __forceinline__ u32 turned(u32 both) {
  u32 other;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(other) : "r"(both));
  return other;
}

static __device__ __forceinline__ void multiply(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
#if HALF
#define KINDS "f32.f16.f16.f32"
#else
#define KINDS "f32.bf16.bf16.f32"
#endif
  asm volatile("mma.sync.aligned.m16n8k16.row.col." KINDS
               " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
