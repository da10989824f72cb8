// What the kernels of decode attention share: their arguments, the tokens of a CTA, and how its sums become a result.
// Copied into their source by the loader, behind number_formats.cuh and the macro PARTS (sums that a warp keeps).

typedef long long i64;
typedef unsigned short u16;

#define WARPS 4
#define TILE 16
#define PITCH (HEAD_DIM + 4)
#define NEVER __int_as_float(0xff800000)
#define STATES (WARPS * PARTS)  // sums that a CTA keeps

#if QUERY == 0
typedef u32 element;
#else
typedef u16 element;
#endif

// Everything is 8 bytes: backends/cuda_attention.py packs it. Strides of the pool are in bytes, others in elements.
struct batch_t {
  const char *k, *v, *k_scales, *v_scales;
  u64 block_stride, token_stride, head_stride, scale_block_stride, scale_token_stride, scale_head_stride;
  u64 blocks, block_size, magic, shift;  // position / block_size = position * magic >> shift
  const element* queries;
  i64 query_stride, query_head_stride;
  element* out;
  i64 out_stride, out_head_stride;
  const int* table;
  i64 table_stride;
  u64 table_rows, width;
  const int *rows, *lengths, *starts;
  u64 kv_heads, group, smallest_piece;
  double score_scale, value_scale;  // for powers of 2
  float *sums, *weights;
};

struct piece_t {
  const int* entries;
  u32 first, begin, end;  // tokens [max(first, begin), end); begin is a multiple of TILE
};

__device__ __forceinline__ float power(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ void put(element* to, float x) { *to = (element)encode<QUERY>(x); }

__device__ __forceinline__ u32 column_of(const batch_t& b, u32 position) {
  return (u32)((u64)position * b.magic >> b.shift);
}

__device__ piece_t piece_of(const batch_t& b, u32 i, u32 split, u32 splits) {
  const i64 row = b.rows ? b.rows[i] : (i64)i;
  const bool inside = row >= 0 && (u64)row < b.table_rows;
  const u64 length = inside && b.lengths[i] > 0 ? b.lengths[i] : 0;
  const u64 reach = b.width * b.block_size;
  const u64 stop = length < reach ? length : reach;
  const u64 first = b.starts && b.starts[i] > 0 ? b.starts[i] : 0;
  if (first >= stop) return {nullptr, 0, 0, 0};
  const u64 base = first / TILE * TILE, round = WARPS * TILE;
  const u64 fair = ((stop - base + splits - 1) / splits + round - 1) / round * round;
  const u64 size = fair > b.smallest_piece ? fair : b.smallest_piece;
  const u64 begin = base + split * size < stop ? base + split * size : stop;
  const u64 end = begin + size < stop ? begin + size : stop;
  return {b.table + row * b.table_stride, (u32)first, (u32)begin, (u32)end};
}

__device__ __forceinline__ u32 place_of(const batch_t& b, u32 position) {
  return position - column_of(b, position) * (u32)b.block_size;
}

// The block of a position and the byte offset of its token in a part; block 0 where there is none.
__device__ __forceinline__ bool find(const batch_t& b, int id, u32 position, u64& offset) {
  const bool there = (u32)id < b.blocks;
  offset = there ? (u64)id * b.block_stride + place_of(b, position) * b.token_stride : 0;
  return there;
}

// Of the KV head's query heads, the first that this CTA takes.
__device__ __forceinline__ u32 first_head() { return blockIdx.z * HEADS; }

struct sums_t {
  float sums[STATES][HEADS][PITCH];
  float maxima[STATES][HEADS], weights[STATES][HEADS];
};

// Adds a CTA's sums in order, and writes its result, or its share of it.
__device__ __forceinline__ void finish(const batch_t& b, u32 i, u32 kv_head, const sums_t& all) {
  const u32 heads = (u32)b.group - first_head() < HEADS ? (u32)b.group - first_head() : HEADS;
  for (u32 at = threadIdx.x; at < heads * HEAD_DIM; at += WARPS * 32) {
    const u32 head = at / HEAD_DIM, dim = at % HEAD_DIM, q_head = kv_head * (u32)b.group + first_head() + head;
    float largest = NEVER, weight = 0, sum = 0;
#pragma unroll
    for (int s = 0; s < STATES; ++s) largest = fmaxf(largest, all.maxima[s][head]);
    const float base = largest == NEVER ? 0 : largest;
#pragma unroll
    for (int s = 0; s < STATES; ++s) {
      const float share = power(all.maxima[s][head] - base);
      weight += all.weights[s][head] * share;
      sum += all.sums[s][head][dim] * share;
    }
    if (gridDim.y == 1) {
      const float mean = weight == 0 ? 0 : sum / weight;
      put(b.out + (i64)i * b.out_stride + (i64)q_head * b.out_head_stride + dim, mean * (float)b.value_scale);
      continue;
    }
    const u64 line = ((u64)i * b.kv_heads * b.group + q_head) * gridDim.y + blockIdx.y;
    b.sums[line * HEAD_DIM + dim] = sum;
    if (dim == 0) b.weights[2 * line] = largest, b.weights[2 * line + 1] = weight;
  }
}
