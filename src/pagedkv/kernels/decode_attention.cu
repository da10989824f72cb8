// softmax(q K^T) V for the last query tokens of each sequence, over the blocks that a table names: any format, in
// float32.
//
// A CTA takes one KV head, up to COLUMNS of its queries (a column: one query head of one query token), and a share of
// the batch's tokens (decode_shares.cuh); it writes results, or a piece's sums, maximum and weight into the workspace
// for decode_merge.cu. LANES lanes share a token; whoever keeps sums of its own has them added in a fixed order: the
// same inputs give the same bits.
// No table entry at or beyond `width` is read; an id outside the pool is not followed; what is masked is never added,
// whatever its bytes are. Everything read is on the device, so the launch may be captured into a graph and replayed.
// Grid: (kv_heads, shares, ceil(columns / COLUMNS)) CTAs of 128 threads. Macros: HEAD_DIM (64, 128, 256), COLUMNS (1, 2,
// 4, 8), QUERY and STORED (dtypes.DType.number), SCALES (1: one a token and head), CAP (1: scores are capped), CTAS (an
// SM).

#define GROUPS 1
#define LANES (HEAD_DIM < 128 ? HEAD_DIM / 4 : 32)
#define PARTS (32 / LANES)
#define FOURS (HEAD_DIM / 4 / LANES)  // a lane has 4 neighboring elements of each LANES * 4
#include "number_formats.cuh"
#include "decode_pieces.cuh"
#include "decode_shares.cuh"

#define STEP 4  // tokens that a thread has in flight

static __device__ __forceinline__ u32 dim_of(u32 lane, int e) { return e / 4 * LANES * 4 + lane * 4 + e % 4; }

static __device__ __forceinline__ void load_row(const char* row, u32 lane, float (&values)[FOURS * 4]) {
#pragma unroll
  for (int f = 0; f < FOURS; ++f) {
    float four[4];
    unpack<STORED, 4>(load<4 * Format<STORED>::BYTES>(row + dim_of(lane, 4 * f) * Format<STORED>::BYTES), four);
#pragma unroll
    for (int e = 0; e < 4; ++e) values[4 * f + e] = four[e];
  }
}

// A column's queries, its sums, maximum and weight.
struct column_t {
  float q[FOURS * 4], sums[FOURS * 4], maximum, weight;
};

static __device__ __forceinline__ void begin_column(const batch_t& b, u32 i, u32 column, column_t& c) {
  const u32 lane = threadIdx.x % LANES, kv_head = blockIdx.x;
  const u32 j = token_of_column(b, column);
  const element* const from = b.queries + (i64)i * b.query_stride + j * b.query_token_stride +
                              (i64)(kv_head * b.group + column - j * b.group) * b.query_head_stride;
  const bool there = column < columns_of(b);
  c.maximum = NEVER, c.weight = 0;
#pragma unroll
  for (int e = 0; e < FOURS * 4; ++e) {
    c.q[e] = there ? decode<QUERY>(from[dim_of(lane, e)]) * b.score_scale : 0;
    c.sums[e] = 0;
  }
}

// STEP tokens from `base` on.
struct tokens_t {
  u32 base;
  bool live[STEP];
  float k[STEP][FOURS * 4], v[STEP][FOURS * 4];
};

static __device__ __forceinline__ void load_tokens(const batch_t& b, const piece_t& piece, u32 base, tokens_t& x) {
  const u32 lane = threadIdx.x % LANES, kv_head = blockIdx.x;
  x = {};
  x.base = base;
#pragma unroll
  for (int t = 0; t < STEP; ++t) {
    const u32 position = base + t;
    if (position < piece.span.first || position >= piece.end) continue;
    const int id = piece.span.entries[column_of(b, position)];
    if ((u32)id >= b.blocks) continue;
    x.live[t] = true;
    const u64 offset = kv_head * b.head_stride + offset_of(b, id, position, b.block_stride, b.token_stride);
    load_row(b.k + offset, lane, x.k[t]);
    load_row(b.v + offset, lane, x.v[t]);
#if SCALES
    const u64 at = kv_head * b.scale_head_stride + offset_of(b, id, position, b.scale_block_stride, b.scale_token_stride);
    const float k_scale = *(const float*)(b.k_scales + at), v_scale = *(const float*)(b.v_scales + at);
#pragma unroll
    for (int e = 0; e < FOURS * 4; ++e) x.k[t][e] *= k_scale, x.v[t][e] *= v_scale;
#endif
  }
}

static __device__ __forceinline__ void add_tokens(const batch_t& b, const tokens_t& x, const span_t& span, u32 column,
                                                  const sums_t& all, column_t& c) {
  float s[STEP] = {}, largest = c.maximum;
#pragma unroll
  for (int e = 0; e < FOURS * 4; ++e)
#pragma unroll
    for (int t = 0; t < STEP; ++t) s[t] += c.q[e] * x.k[t][e];
#pragma unroll
  for (int step = LANES / 2; step > 0; step /= 2)
#pragma unroll
    for (int t = 0; t < STEP; ++t) s[t] += __shfl_xor_sync(~0u, s[t], step);
  seen_t seen = {span.all_first, span.all_stop};
  if (x.base < seen.first || x.base + STEP > seen.stop)
    seen = seen_by(b, token_of_column(b, column), all.length, all.start);
#pragma unroll
  for (int t = 0; t < STEP; ++t) {
    const bool there = x.live[t] && x.base + t >= seen.first && x.base + t < seen.stop;
    s[t] = there ? score_of(b, s[t]) : NEVER;
    largest = fmaxf(largest, s[t]);
  }
  const float base = largest == NEVER ? 0 : largest;
  const float shrink = power(c.maximum - base);
  c.maximum = largest;
  c.weight *= shrink;
#pragma unroll
  for (int e = 0; e < FOURS * 4; ++e) c.sums[e] *= shrink;
#pragma unroll
  for (int t = 0; t < STEP; ++t) {
    const bool there = s[t] != NEVER;
    const float p = power(s[t] - base);
    c.weight += p;
#pragma unroll
    for (int e = 0; e < FOURS * 4; ++e) c.sums[e] += there ? p * x.v[t][e] : 0;
  }
}

struct worker_t {
  __device__ __forceinline__ void begin(const batch_t&, const piece_t&, sums_t&) {}
  __device__ __forceinline__ void sum_up(const batch_t& b, const piece_t& piece, const piece_t&, u32 i, sums_t& all);
};

__device__ __forceinline__ void worker_t::sum_up(const batch_t& b, const piece_t& piece, const piece_t&, u32 i,
                                                 sums_t& all) {
  const u32 lane = threadIdx.x % LANES, state = threadIdx.x / LANES;
  column_t columns[COLUMNS];
#pragma unroll
  for (int n = 0; n < COLUMNS; ++n) begin_column(b, i, blockIdx.z * COLUMNS + n, columns[n]);
  const u32 first = piece.begin + state / PARTS * PARTS * STEP;
  for (u32 base = first; base < piece.end; base += STATES * STEP) {
    tokens_t x;
    load_tokens(b, piece, base + state % PARTS * STEP, x);
#pragma unroll
    for (int n = 0; n < COLUMNS; ++n) add_tokens(b, x, piece.span, blockIdx.z * COLUMNS + n, all, columns[n]);
  }
#pragma unroll
  for (int n = 0; n < COLUMNS; ++n) {
    if (lane == 0) all.maxima[state][n] = columns[n].maximum, all.weights[state][n] = columns[n].weight;
#pragma unroll
    for (int e = 0; e < FOURS * 4; e += 2)
      all.sums(state, n, dim_of(lane, e)) = make_float2(columns[n].sums[e], columns[n].sums[e + 1]);
  }
}

extern "C" __global__ void __launch_bounds__(WARPS * 32, CTAS) decode_attention(batch_t b) {
  __shared__ sums_t all;
  worker_t worker;
  for_each_piece(b, all, worker);
}
