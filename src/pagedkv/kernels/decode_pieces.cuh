// What the kernels of decode attention share: their arguments, which tokens a query sees, and how a warp's sums become
// a result. Copied into their source by the loader, behind number_formats.cuh and the macros COLUMNS (a column: one
// query head of one query token; a warp sums up COLUMNS of them), GROUPS (of columns that a CTA's warps take), PARTS
// (sums that a warp keeps) and LOG2_BLOCK (block_size is 1 << LOG2_BLOCK; -1: it is no power of 2).

typedef long long i64;
typedef unsigned short u16;

#define WARPS 4
#define TILE 16
#define ROUND (WARPS * TILE)  // tokens: what shares are measured in
#define PITCH (HEAD_DIM + 2)  // floats: columns that a warp writes at the same time begin in different banks
#define NEVER __int_as_float(0xff800000)
#ifndef WHOLE
#define WHOLE 0
#endif
#define STATES (WARPS * PARTS)  // sums that a CTA keeps

#if QUERY == 0
typedef u32 element;
#else
typedef u16 element;
#endif

// All 8 bytes, or two floats in 8: backends/cuda_attention.py packs it. Strides of the pool are in bytes, others in elements.
struct batch_t {
  const char *k, *v, *k_scales, *v_scales;
  u64 block_stride, token_stride, head_stride, scale_block_stride, scale_token_stride, scale_head_stride;
  u64 blocks, block_size, magic, shift;  // position / block_size = position * magic >> shift
  const element* queries;
  i64 query_stride, query_token_stride, query_head_stride;
  element* out;
  i64 out_stride, out_token_stride, out_head_stride;
  const int* table;
  i64 table_stride;
  u64 table_rows, width;
  const int *rows, *lengths, *starts;
  u64 count, tokens, kv_heads, group, causal, window;  // window 0: none
  u64 smallest_share;  // rounds
  float score_scale, value_scale, cap, unused;  // for powers of 2
  float *sums, *weights;
  int* marks;
};

// Tokens [first, stop) of a sequence are seen by some query, [all_first, all_stop) by every one.
struct span_t {
  const int* entries;
  u32 first, stop, all_first, all_stop;
};

// Tokens [begin, end) of it: begin is a multiple of TILE behind that of `first`.
struct piece_t {
  span_t span;
  u32 begin, end;
};

__device__ __forceinline__ float power(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// A score for a power of 2. With CAP: b.cap * tanh(x), near 0 by its series, where 1 - 2 / (e^2x + 1) would lose digits.
__device__ __forceinline__ float score_of(const batch_t& b, float x) {
#if CAP
  float inverse;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(power(x * 2.8853900817779268f) + 1.0f));
  const float y = x * x;
  const float near = x * (1.0f + y * (-0.33333333f + y * (0.13333333f - y * 0.053968254f)));
  return b.cap * (y < 0.04f ? near : 1.0f - 2.0f * inverse);
#else
  (void)b;
  return x;
#endif
}

__device__ __forceinline__ void put(element* to, float x) { *to = (element)encode<QUERY>(x); }

__device__ __forceinline__ u32 column_of(const batch_t& b, u32 position) {
  return LOG2_BLOCK < 0 ? (u32)((u64)position * b.magic >> b.shift) : position >> (LOG2_BLOCK & 31);
}

__device__ __forceinline__ u32 place_of(const batch_t& b, u32 position) {
  return LOG2_BLOCK < 0 ? position - column_of(b, position) * (u32)b.block_size : position & ((1u << (LOG2_BLOCK & 31)) - 1);
}

// Where a token begins, `block` and `token` apart: 0 for a block that is not in the pool.
__device__ __forceinline__ u64 offset_of(const batch_t& b, int id, u32 position, u64 block, u64 token) {
  return (u32)id < b.blocks ? (u64)id * block + place_of(b, position) * token : 0;
}

struct seen_t {
  u32 first, stop;
};

// What query token j of `b.tokens` sees of a sequence; `start`: no token in front of it.
__device__ __forceinline__ seen_t seen_by(const batch_t& b, u32 j, u32 length, u32 start) {
  const u32 behind = (u32)b.tokens - 1 - j;
  const u32 own = length > behind ? length - behind : 0;  // one past the query's own position
  const u32 first = b.window && own > b.window ? own - (u32)b.window : 0;
  return {first > start ? first : start, b.causal ? own : length};
}

__device__ __forceinline__ u32 number_of(const int* numbers, u32 i) {
  const int number = numbers ? numbers[i] : 0;
  return number > 0 ? number : 0;
}

__device__ __forceinline__ span_t span_of(const batch_t& b, u32 i) {
  const i64 row = b.rows ? b.rows[i] : (i64)i;
  const u32 length = number_of(b.lengths, i), start = number_of(b.starts, i);
  const u64 reach = row >= 0 && (u64)row < b.table_rows ? b.width * b.block_size : 0;
  const seen_t early = seen_by(b, 0, length, start), late = seen_by(b, (u32)b.tokens - 1, length, start);
  const u32 stop = late.stop < reach ? late.stop : (u32)reach;
  return {b.table + row * b.table_stride, early.first, stop, late.first, early.stop < stop ? early.stop : stop};
}

// At least one: a sequence of which nothing is seen has a result too.
__device__ __forceinline__ u32 rounds_of(const span_t& span) {
  return span.first < span.stop ? (span.stop - span.first / TILE * TILE + ROUND - 1) / ROUND : 1;
}

__device__ __forceinline__ u32 columns_of(const batch_t& b) { return (u32)(b.tokens * b.group); }

// The query token of a column, of which there are at most 4: cheaper than a division.
__device__ __forceinline__ u32 token_of_column(const batch_t& b, u32 column) {
  const u32 group = (u32)b.group;
  return (column >= group) + (column >= 2 * group) + (column >= 3 * group);
}

// decode_merge.cu is launched while the kernel in front of it still runs, and waits for its end. Where no such launch
// follows, nobody else's may begin early.
__device__ __forceinline__ void let_merge_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}
__device__ __forceinline__ void await_pieces() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// What a CTA has in shared memory: of each warp (or part of one) its sums once a piece ends, and what decode_tensor.cu
// puts there before.
#ifndef OWN_BYTES
#define OWN_BYTES (COLUMNS * PITCH * 4)
#endif
#ifndef STAGES
#define STAGES 0
#endif
struct sums_t {
#if STAGES
  alignas(1024) char own[STATES][OWN_BYTES];
  u64 barriers[WARPS][STAGES];
  float scales[WARPS][STAGES][SCALES ? 2 * TILE : 1];
  uint2 queries[COLUMNS * HEAD_DIM / 4];
  float units[COLUMNS];
#else
  alignas(16) char own[STATES][OWN_BYTES];
#endif
  float maxima[STATES][COLUMNS], weights[STATES][COLUMNS];
#if WHOLE
  int ids[WARPS][2][64];  // of blocks
#endif
  u32 length, start;  // of the sequence in hand

  // Two neighboring dims, the first one even.
  __device__ __forceinline__ float2& sums(u32 state, u32 column, u32 dim) {
#if STAGES
    return *(float2*)((float*)own[state] + column * HEAD_DIM + (dim ^ column / 2 % 4 * 8));
#else
    return *(float2*)((float*)own[state] + column * PITCH + dim);
#endif
  }
};

__device__ __forceinline__ element* out_of(const batch_t& b, u32 i, u32 kv_head, u32 column) {
  const u32 j = token_of_column(b, column), head = kv_head * (u32)b.group + column - j * (u32)b.group;
  return b.out + (i64)i * b.out_stride + j * b.out_token_stride + (i64)head * b.out_head_stride;
}

__device__ __forceinline__ float result_of(const batch_t& b, float sum, float weight) {
  return (weight == 0 ? 0 : sum / weight) * b.value_scale;
}

// The line of the workspace that a slot has for a column of a KV head.
__device__ __forceinline__ u64 line_of(const batch_t& b, u64 slot, u32 kv_head, u32 column) {
  return (slot * b.kv_heads + kv_head) * columns_of(b) + column;
}

// Adds a CTA's sums in order, and writes its results, or its share of them into the lines of `slot`.
__device__ __forceinline__ void finish(const batch_t& b, u32 i, sums_t& all, i64 slot) {
  constexpr u32 OF_COLUMN = WARPS * 32 / (GROUPS * COLUMNS);  // threads
  const u32 group = threadIdx.x / OF_COLUMN / COLUMNS, in = threadIdx.x / OF_COLUMN % COLUMNS;
  const u32 column = (blockIdx.z * GROUPS + group) * COLUMNS + in, kv_head = blockIdx.x;
  if (column >= columns_of(b)) return;
  float largest = NEVER, weight = 0, shares[STATES / GROUPS];
#pragma unroll
  for (int s = 0; s < STATES / GROUPS; ++s) largest = fmaxf(largest, all.maxima[s * GROUPS + group][in]);
#pragma unroll
  for (int s = 0; s < STATES / GROUPS; ++s) {
    shares[s] = power(all.maxima[s * GROUPS + group][in] - (largest == NEVER ? 0 : largest));
    weight += all.weights[s * GROUPS + group][in] * shares[s];
  }
  const u64 line = slot < 0 ? 0 : line_of(b, slot, kv_head, column);
  element* const to = out_of(b, i, kv_head, column);
  const float factor = result_of(b, 1, weight);
#pragma unroll 4
  for (u32 dim = threadIdx.x % OF_COLUMN * 4; dim < HEAD_DIM; dim += OF_COLUMN * 4) {
    float4 sum = {0, 0, 0, 0};
#pragma unroll
    for (int s = 0; s < STATES / GROUPS; ++s) {
      const float2 low = all.sums(s * GROUPS + group, in, dim), high = all.sums(s * GROUPS + group, in, dim + 2);
      sum.x += low.x * shares[s], sum.y += low.y * shares[s];
      sum.z += high.x * shares[s], sum.w += high.y * shares[s];
    }
    if (weight == 0) sum = {0, 0, 0, 0};
    if (slot >= 0) *(float4*)(b.sums + line * HEAD_DIM + dim) = sum;
    else {
      put(to + dim, sum.x * factor), put(to + dim + 1, sum.y * factor);
      put(to + dim + 2, sum.z * factor), put(to + dim + 3, sum.w * factor);
    }
  }
  if (slot >= 0 && threadIdx.x % OF_COLUMN == 0) ((float2*)b.weights)[line] = make_float2(largest, weight);
}
