// Writes K and V of n tokens of one layer into their slots, converted to the layout's format.
//
// A work item is ELEMENTS neighboring elements of one head: one load, one store. A CTA takes THREADS * UNROLL items of K,
// or of V, and ends; the first k_ctas CTAs are K's. All loads of a thread are issued before its first store, and none of
// them waits for a slot. A slot below 0 or beyond the pool is skipped. Grid: k_ctas + V's CTAs of THREADS threads.
// Macros: THREADS, UNROLL, GIVEN, STORED (formats, DType.number), ELEMENTS (a power of two that divides K_DIM and V_DIM;
// it times an element's bytes, given or stored, is at most 16 and divides every address and stride), HEADS, K_DIM, V_DIM
// (0: no V), BLOCK_SIZE, HND (0: NHD), SCALES (1: values are divided by k_scale, v_scale; float32 given as its bits).
#include "number_formats.cuh"
#include "kv_items.cuh"

static __device__ __forceinline__ Bits<STORED_BYTES> convert(const Bits<GIVEN_BYTES>& given, float scale) {
#if GIVEN == STORED && SCALES == 0
  (void)scale;
  return given;
#else
  float values[ELEMENTS];
  unpack<GIVEN, ELEMENTS>(given, values);
  if (SCALES) {
#pragma unroll
    for (int i = 0; i < ELEMENTS; ++i) values[i] /= scale;
  }
  return pack<STORED, ELEMENTS>(values);
#endif
}

template <int DIM>
static __device__ __forceinline__ void write_part(char* pool, u64 block_stride, const char* tokens, long long token_stride,
                                                  long long head_stride, const long long* slots, u64 n, u64 total_slots,
                                                  u32 cta, float scale) {
  typedef Part<DIM> P;
  const Items<DIM> items(cta);

  Bits<GIVEN_BYTES> given[UNROLL];
  u64 slot[UNROLL];
#pragma unroll
  for (int i = 0; i < UNROLL; ++i) {
    const u32 at = items.at(i);
    const u64 token = items.token(at);
    slot[i] = ~0ull;
    if (token < n) {
      slot[i] = (u64)slots[token];
      given[i] = load<GIVEN_BYTES>(tokens + (long long)token * token_stride + P::head(at) * head_stride +
                                   P::place(at) * GIVEN_BYTES);
    }
  }
#pragma unroll
  for (int i = 0; i < UNROLL; ++i) {
    const u32 at = items.at(i);
    if (slot[i] < total_slots)
      store<STORED_BYTES>(pool + slot[i] / BLOCK_SIZE * block_stride + P::row_of(slot[i] % BLOCK_SIZE, P::head(at)) +
                              P::place(at) * STORED_BYTES,
                          convert(given[i], scale));
  }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    write_kv(char* k_pool, char* v_pool, u64 k_block_stride, u64 v_block_stride, char* k_scales, char* v_scales,
             u64 k_scale_stride, u64 v_scale_stride, const char* k, const char* v, long long k_token_stride,
             long long k_head_stride, long long v_token_stride, long long v_head_stride, const long long* slots, u64 n,
             u64 total_slots, u32 k_ctas, u32 k_scale, u32 v_scale) {
  (void)k_scales, (void)v_scales, (void)k_scale_stride, (void)v_scale_stride;
  if (blockIdx.x < k_ctas) {
    write_part<K_DIM>(k_pool, k_block_stride, k, k_token_stride, k_head_stride, slots, n, total_slots, blockIdx.x,
                      __uint_as_float(k_scale));
  } else {
#if V_DIM > 0
    write_part<V_DIM>(v_pool, v_block_stride, v, v_token_stride, v_head_stride, slots, n, total_slots,
                      blockIdx.x - k_ctas, __uint_as_float(v_scale));
#else
    (void)v_pool, (void)v_block_stride, (void)v, (void)v_token_stride, (void)v_head_stride, (void)v_scale;
#endif
  }
}
