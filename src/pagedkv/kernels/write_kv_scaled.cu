// write_kv for layouts with a scale for each token and head: the largest magnitude / the format's largest number.
//
// LANES neighboring threads take one head of one token: they find the largest magnitude together, then write numbers and
// scale. NaNs do not count, an infinity counts as float32's largest number; a scale of 0 becomes 1. A CTA takes
// THREADS / LANES heads of K, or of V; the first k_ctas CTAs are K's. Grid: k_ctas + V's CTAs of THREADS threads.
// Macros as in write_kv, without UNROLL and SCALES; LANES (divides THREADS).
#include "number_formats.cuh"
#include "kv_items.cuh"

static __device__ __forceinline__ float largest_of(const Bits<GIVEN_BYTES>& given, float largest) {
  float values[ELEMENTS];
  unpack<GIVEN, ELEMENTS>(given, values);
#pragma unroll
  for (int i = 0; i < ELEMENTS; ++i) {
    const float magnitude = values[i] < 0 ? -values[i] : values[i];
    const float finite = clamped(magnitude, Format<0>::LARGEST);
    largest = finite > largest ? finite : largest;
  }
  return largest;
}

static __device__ __forceinline__ Bits<STORED_BYTES> scaled(const Bits<GIVEN_BYTES>& given, float scale) {
  float values[ELEMENTS];
  unpack<GIVEN, ELEMENTS>(given, values);
#pragma unroll
  for (int i = 0; i < ELEMENTS; ++i) values[i] /= scale;
  return pack<STORED, ELEMENTS>(values);
}

template <int DIM>
static __device__ __forceinline__ void write_part(char* pool, u64 block_stride, char* scales, u64 scale_stride,
                                                  const char* tokens, long long token_stride, long long head_stride,
                                                  const long long* slots, u64 n, u64 total_slots, u32 cta,
                                                  float* largest_of_thread) {
  constexpr u32 OF_HEAD = Part<DIM>::OF_HEAD;
  const u32 lane = threadIdx.x % LANES;
  const u64 row = (u64)cta * (THREADS / LANES) + threadIdx.x / LANES;
  const u64 token = row / HEADS;
  const u32 head = (u32)(row % HEADS);
  const u64 slot = token < n ? (u64)slots[token] : ~0ull;
  const char* from = tokens + (long long)token * token_stride + head * head_stride;

  float largest = 0.0f;
  if (slot < total_slots)
    for (u32 at = lane; at < OF_HEAD; at += LANES) largest = largest_of(load<GIVEN_BYTES>(from + at * (u64)GIVEN_BYTES), largest);
  largest_of_thread[threadIdx.x] = largest;
  __syncthreads();
  if (slot >= total_slots) return;
  for (u32 i = 0; i < LANES; ++i) {
    const float found = largest_of_thread[threadIdx.x - lane + i];
    largest = found > largest ? found : largest;
  }
  float scale = largest / Format<STORED>::LARGEST;
  if (scale == 0.0f) scale = 1.0f;
  const u64 block = slot / BLOCK_SIZE, offset = slot % BLOCK_SIZE;
  if (lane == 0)
    *(float*)(scales + block * scale_stride + Part<DIM>::scale_of(offset, head)) = scale;
  char* to = pool + block * block_stride + Part<DIM>::row_of(offset, head);
  for (u32 at = lane; at < OF_HEAD; at += LANES)
    store<STORED_BYTES>(to + at * (u64)STORED_BYTES, scaled(load<GIVEN_BYTES>(from + at * (u64)GIVEN_BYTES), scale));
}

extern "C" __global__ void __launch_bounds__(THREADS)
    write_kv_scaled(char* k_pool, char* v_pool, u64 k_block_stride, u64 v_block_stride, char* k_scales, char* v_scales,
                    u64 k_scale_stride, u64 v_scale_stride, const char* k, const char* v, long long k_token_stride,
                    long long k_head_stride, long long v_token_stride, long long v_head_stride, const long long* slots,
                    u64 n, u64 total_slots, u32 k_ctas, u32 k_scale, u32 v_scale) {
  __shared__ float largest_of_thread[THREADS];
  (void)k_scale, (void)v_scale;
  if (blockIdx.x < k_ctas) {
    write_part<K_DIM>(k_pool, k_block_stride, k_scales, k_scale_stride, k, k_token_stride, k_head_stride, slots, n,
                      total_slots, blockIdx.x, largest_of_thread);
  } else {
#if V_DIM > 0
    write_part<V_DIM>(v_pool, v_block_stride, v_scales, v_scale_stride, v, v_token_stride, v_head_stride, slots, n,
                      total_slots, blockIdx.x - k_ctas, largest_of_thread);
#else
    (void)v_pool, (void)v_block_stride, (void)v_scales, (void)v_scale_stride;
    (void)v, (void)v_token_stride, (void)v_head_stride;
#endif
  }
}
