// The number formats of keys and values: packed codes to float32 and back, bit for bit as number_formats.py says.
//
// A format is named by DType.number. Conversions are the processor's own where it has them (bfloat16 from sm_80, 8-bit
// floats from sm_89 on), and integer arithmetic elsewhere and on the host.

typedef unsigned long long u64;
typedef unsigned int u32;

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define HAS_PAIRS 1
#else
#define HAS_PAIRS 0
#endif
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
#define HAS_FLOAT8 1
#else
#define HAS_FLOAT8 0
#endif

// STEPS: one over the smallest number above zero. GROW: the power of two that turns the code's bits, moved to float32's
// place, into the value.
template <int FORMAT>
struct Format;
template <>
struct Format<0> {  // float32
  static constexpr int BYTES = 4, MANTISSA = 23, BIAS = 127;
  static constexpr float LARGEST = 3.4028234663852886e38f, STEPS = 1.0f, GROW = 1.0f;
};
template <>
struct Format<1> {  // float16
  static constexpr int BYTES = 2, MANTISSA = 10, BIAS = 15;
  static constexpr float LARGEST = 65504.0f, STEPS = 16777216.0f, GROW = 5.192296858534828e33f;
};
template <>
struct Format<2> {  // bfloat16
  static constexpr int BYTES = 2, MANTISSA = 7, BIAS = 127;
  static constexpr float LARGEST = 3.3895313892515355e38f, STEPS = 1.0f, GROW = 1.0f;
};
template <>
struct Format<3> {  // float8 e4m3fn: no infinity
  static constexpr int BYTES = 1, MANTISSA = 3, BIAS = 7;
  static constexpr float LARGEST = 448.0f, STEPS = 512.0f, GROW = 1.329227995784916e36f;
};
template <>
struct Format<4> {  // float8 e5m2
  static constexpr int BYTES = 1, MANTISSA = 2, BIAS = 15;
  static constexpr float LARGEST = 57344.0f, STEPS = 65536.0f, GROW = 5.192296858534828e33f;
};
template <>
struct Format<5> {  // int8
  static constexpr int BYTES = 1, MANTISSA = 0, BIAS = 0;
  static constexpr float LARGEST = 127.0f, STEPS = 1.0f, GROW = 1.0f;
};

// BYTES bytes (1, 2, 4, 8, 16) in registers.
template <int BYTES>
struct Bits {
  u32 words[(BYTES + 3) / 4];
};

template <int BYTES>
static __device__ __forceinline__ Bits<BYTES> load(const char* from) {
  Bits<BYTES> bits;
  if constexpr (BYTES == 16) {
    const uint4 wide = *(const uint4*)from;
    bits.words[0] = wide.x, bits.words[1] = wide.y, bits.words[2] = wide.z, bits.words[3] = wide.w;
  } else if constexpr (BYTES == 8) {
    const uint2 wide = *(const uint2*)from;
    bits.words[0] = wide.x, bits.words[1] = wide.y;
  } else if constexpr (BYTES == 4) {
    bits.words[0] = *(const u32*)from;
  } else if constexpr (BYTES == 2) {
    bits.words[0] = *(const unsigned short*)from;
  } else {
    bits.words[0] = *(const unsigned char*)from;
  }
  return bits;
}

template <int BYTES>
static __device__ __forceinline__ void store(char* to, const Bits<BYTES>& bits) {
  if constexpr (BYTES == 16) {
    *(uint4*)to = uint4{bits.words[0], bits.words[1], bits.words[2], bits.words[3]};
  } else if constexpr (BYTES == 8) {
    *(uint2*)to = uint2{bits.words[0], bits.words[1]};
  } else if constexpr (BYTES == 4) {
    *(u32*)to = bits.words[0];
  } else if constexpr (BYTES == 2) {
    *(unsigned short*)to = (unsigned short)bits.words[0];
  } else {
    *(unsigned char*)to = (unsigned char)bits.words[0];
  }
}

// A NaN is neither above nor below: it stays.
__device__ __forceinline__ float clamped(float value, float most) {
  return value > most ? most : value < -most ? -most : value;
}

template <int FORMAT>
static __device__ __forceinline__ float decode_small(u32 code) {
  typedef Format<FORMAT> F;
  constexpr u32 SIGN = 1u << (8 * F::BYTES - 1);
  const u32 magnitude = code & (SIGN - 1);
  const u32 moved = magnitude << (23 - F::MANTISSA);
  // Infinity, of which e4m3fn has none; what is above is a NaN.
  constexpr u32 INFINITE = FORMAT == 3 ? SIGN - 2 : (SIGN - 1) >> F::MANTISSA << F::MANTISSA;
  if (magnitude > INFINITE) return __uint_as_float(0x7FFFFFFFu);
  float value = __uint_as_float(moved) * F::GROW;
  if (FORMAT != 3 && magnitude == INFINITE) value = __uint_as_float(0x7F800000u);
  return code & SIGN ? -value : value;
}

template <int FORMAT>
static __device__ __forceinline__ float decode(u32 code) {
  if constexpr (FORMAT == 0) return __uint_as_float(code);
  else if constexpr (FORMAT == 2) return __uint_as_float(code << 16);
  else if constexpr (FORMAT == 5) return (float)(signed char)code;
  else return decode_small<FORMAT>(code);
}

// `value` is within the format's largest numbers, or a NaN.
template <int FORMAT>
static __device__ __forceinline__ u32 encode_small(float value) {
  typedef Format<FORMAT> F;
  constexpr int DROP = 23 - F::MANTISSA;
  constexpr u32 SIGN = 1u << (8 * F::BYTES - 1);
  const u32 bits = __float_as_uint(value);
  const u32 magnitude = bits & 0x7FFFFFFFu;
  const u32 odd = magnitude >> DROP & 1u;
  u32 code = ((magnitude + ((1u << (DROP - 1)) - 1) + odd) >> DROP) - ((127u - F::BIAS) << F::MANTISSA);
  // Below the normal numbers steps are even: adding 2^23 leaves how many, ties to even, in the low bits.
  if (F::BIAS != 127 && magnitude < (128u - F::BIAS) << 23)
    code = __float_as_uint(__uint_as_float(magnitude) * F::STEPS + 8388608.0f) - 0x4B000000u;
  return value == value ? (bits >> 31 ? SIGN | code : code) : SIGN - 1;
}

template <int FORMAT>
static __device__ __forceinline__ u32 encode(float value) {
  if constexpr (FORMAT == 0) return __float_as_uint(value);
  else {
    const float kept = clamped(value, Format<FORMAT>::LARGEST);
    // Adding 1.5 x 2^23 leaves the nearest whole number, ties to even, in the low bits.
    if constexpr (FORMAT == 5) return value == value ? (__float_as_uint(kept + 12582912.0f) - 0x4B400000u) & 255u : 0u;
    else return encode_small<FORMAT>(kept);
  }
}

// Two neighbors at once, the first in the low half.
template <int FORMAT>
static __device__ __forceinline__ u32 encode_pair(float low, float high) {
#if HAS_PAIRS
  u32 pair;
  if constexpr (FORMAT == 1) {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(clamped(high, 65504.0f)), "f"(clamped(low, 65504.0f)));
    return pair;
  }
  if constexpr (FORMAT == 2) {
    constexpr float MOST = Format<2>::LARGEST;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(clamped(high, MOST)), "f"(clamped(low, MOST)));
    return pair;
  }
#endif
#if HAS_FLOAT8
  unsigned short small;
  if constexpr (FORMAT == 3) {
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(small) : "f"(high), "f"(low));
    return small;
  }
  if constexpr (FORMAT == 4) {
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(small) : "f"(high), "f"(low));
    return small;
  }
#endif
  return encode<FORMAT>(low) | encode<FORMAT>(high) << (8 * Format<FORMAT>::BYTES % 32);
}

template <int FORMAT>
static __device__ __forceinline__ void decode_pair(u32 codes, float& low, float& high) {
#if HAS_FLOAT8
  if constexpr (FORMAT == 3 || FORMAT == 4) {
    u32 halves;
    if constexpr (FORMAT == 3) asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"((unsigned short)codes));
    else asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(halves) : "h"((unsigned short)codes));
    decode_pair<1>(halves, low, high);
    return;
  }
#endif
#ifdef __CUDA_ARCH__
  if constexpr (FORMAT == 1) {
    asm("cvt.f32.f16 %0, %1;" : "=f"(low) : "h"((unsigned short)codes));
    asm("cvt.f32.f16 %0, %1;" : "=f"(high) : "h"((unsigned short)(codes >> 16)));
    return;
  }
#endif
  constexpr int SHIFT = 8 * Format<FORMAT>::BYTES % 32;
  constexpr u32 MASK = 0xFFFFFFFFu >> (32 - SHIFT);
  low = decode<FORMAT>(codes & MASK);
  high = decode<FORMAT>(codes >> SHIFT & MASK);
}

// COUNT numbers (1 or even) of a format as float32.
template <int FORMAT, int COUNT>
static __device__ __forceinline__ void unpack(const Bits<COUNT * Format<FORMAT>::BYTES>& bits, float (&values)[COUNT]) {
  constexpr int BYTES = Format<FORMAT>::BYTES;
#pragma unroll
  for (int i = 0; i < COUNT; i += 2) {
    if constexpr (BYTES == 4) {
      values[i] = decode<FORMAT>(bits.words[i]);
      if constexpr (COUNT > 1) values[i + 1] = decode<FORMAT>(bits.words[i + 1]);
    } else {
      const u32 pair = bits.words[i * BYTES / 4] >> (8 * (i * BYTES % 4));
      float unused;
      if constexpr (COUNT > 1) decode_pair<FORMAT>(pair, values[i], values[i + 1]);
      else decode_pair<FORMAT>(pair, values[0], unused);
    }
  }
}

template <int FORMAT, int COUNT>
static __device__ __forceinline__ Bits<COUNT * Format<FORMAT>::BYTES> pack(const float (&values)[COUNT]) {
  constexpr int BYTES = Format<FORMAT>::BYTES;
  Bits<COUNT * BYTES> bits = {};
#pragma unroll
  for (int i = 0; i < COUNT; i += 2) {
    if constexpr (BYTES == 4) {
      bits.words[i] = encode<FORMAT>(values[i]);
      if constexpr (COUNT > 1) bits.words[i + 1] = encode<FORMAT>(values[i + 1]);
    } else {
      const u32 pair = encode_pair<FORMAT>(values[i], COUNT > 1 ? values[i + (COUNT > 1)] : 0.0f);
      bits.words[i * BYTES / 4] |= pair << (8 * (i * BYTES % 4));
    }
  }
  return bits;
}
