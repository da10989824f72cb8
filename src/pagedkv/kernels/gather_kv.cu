// Reads K and V of n slots of one layer into tokens, converted to their format: the way back of write_kv.
//
// Work items, CTAs and macros as in write_kv, with GIVEN the format of the tokens that are written here and STORED the
// layout's. SCALES: 1: numbers are multiplied by k_scale, v_scale; 2: by the scale of their token and head, float32 in
// k_scales, v_scales. A slot below 0 or beyond the pool leaves zeros.
#include "number_formats.cuh"
#include "kv_items.cuh"

static __device__ __forceinline__ Bits<GIVEN_BYTES> convert(const Bits<STORED_BYTES>& stored, float scale) {
#if GIVEN == STORED && SCALES == 0
  (void)scale;
  return stored;
#else
  float values[ELEMENTS];
  unpack<STORED, ELEMENTS>(stored, values);
  if (SCALES) {
#pragma unroll
    for (int i = 0; i < ELEMENTS; ++i) values[i] *= scale;
  }
  return pack<GIVEN, ELEMENTS>(values);
#endif
}

template <int DIM>
static __device__ __forceinline__ void gather_part(const char* pool, u64 block_stride, const char* scales,
                                                   u64 scale_stride, char* tokens, long long token_stride,
                                                   long long head_stride, const long long* slots, u64 n,
                                                   u64 total_slots, u32 cta, float scale) {
  typedef Part<DIM> P;
  const Items<DIM> items(cta);

  u64 slot[UNROLL];
#pragma unroll
  for (int i = 0; i < UNROLL; ++i) {
    const u32 at = items.at(i);
    const u64 token = items.token(at);
    slot[i] = token < n ? (u64)slots[token] : ~0ull;
  }
  Bits<STORED_BYTES> stored[UNROLL];
  float factor[UNROLL];
#pragma unroll
  for (int i = 0; i < UNROLL; ++i) {
    const u32 at = items.at(i), head = P::head(at);
    stored[i] = {};
    factor[i] = scale;
    if (slot[i] < total_slots) {
      const u64 block = slot[i] / BLOCK_SIZE, offset = slot[i] % BLOCK_SIZE;
      stored[i] = load<STORED_BYTES>(pool + block * block_stride + P::row_of(offset, head) +
                                     P::place(at) * STORED_BYTES);
      if constexpr (SCALES == 2)
        factor[i] = *(const float*)(scales + block * scale_stride + P::scale_of(offset, head));
    }
  }
#pragma unroll
  for (int i = 0; i < UNROLL; ++i) {
    const u32 at = items.at(i);
    const u64 token = items.token(at);
    if (token < n)
      store<GIVEN_BYTES>(tokens + (long long)token * token_stride + P::head(at) * head_stride +
                             P::place(at) * GIVEN_BYTES,
                         slot[i] < total_slots ? convert(stored[i], factor[i]) : Bits<GIVEN_BYTES>{});
  }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    gather_kv(const char* k_pool, const char* v_pool, u64 k_block_stride, u64 v_block_stride, const char* k_scales,
              const char* v_scales, u64 k_scale_stride, u64 v_scale_stride, char* k, char* v, long long k_token_stride,
              long long k_head_stride, long long v_token_stride, long long v_head_stride, const long long* slots, u64 n,
              u64 total_slots, u32 k_ctas, u32 k_scale, u32 v_scale) {
  if (blockIdx.x < k_ctas) {
    gather_part<K_DIM>(k_pool, k_block_stride, k_scales, k_scale_stride, k, k_token_stride, k_head_stride, slots, n,
                       total_slots, blockIdx.x, __uint_as_float(k_scale));
  } else {
#if V_DIM > 0
    gather_part<V_DIM>(v_pool, v_block_stride, v_scales, v_scale_stride, v, v_token_stride, v_head_stride, slots, n,
                       total_slots, blockIdx.x - k_ctas, __uint_as_float(v_scale));
#else
    (void)v_pool, (void)v_block_stride, (void)v_scales, (void)v_scale_stride;
    (void)v, (void)v_token_stride, (void)v_head_stride, (void)v_scale;
#endif
  }
}
