// A warp's queries as the other factor of K's fragments.
//
// In registers; STAGED: in shared memory, in the place of the warp's sums, which are written once the queries are used
// up; with STAGES in a place of their own that all warps share.
// bfloat16 queries over 8-bit numbers (EVENED) become float16, divided by a power of 2 for each column.

#define BANDS (COLUMNS / 8)
#define EVENED (QUERY == 2 && STORED > 2)

struct queries_t {
#if STAGED || STAGES
  uint2* pairs;
#else
  uint2 pairs[BANDS * HEAD_DIM / 16];
#endif
#if STAGES
  const float* units;
#else
  float units[BANDS][2];
#endif

  __device__ __forceinline__ uint2& at(int n, int m) {
    const int place = n * (HEAD_DIM / 16) + m;
#if STAGED || STAGES
    return pairs[(place / 2 * 32 + threadIdx.x % 32) * 2 + place % 2];
#else
    return pairs[place];
#endif
  }

  // Both of fragments m and m + 1; m is even.
  __device__ __forceinline__ uint4 two(int n, int m) {
#if STAGED || STAGES
    return ((const uint4*)pairs)[(n * (HEAD_DIM / 16) + m) / 2 * 32 + threadIdx.x % 32];
#else
    const uint2 low = at(n, m), high = at(n, m + 1);
    return make_uint4(low.x, low.y, high.x, high.y);
#endif
  }

  __device__ __forceinline__ float unit(int n, int h) const {
#if STAGES
    return units[n * 8 + 2 * (threadIdx.x % 4) + h];
#else
    return units[n][h];
#endif
  }
};

// Warps that load a band, each a part of every row; a unit is found by one that has the whole row.
#define SPREAD (STAGES && !EVENED ? WARPS / BANDS : 1)
#define OF_BAND (HEAD_DIM / 16 / SPREAD)  // fragments that a warp loads

// Elements of a row for OF_BAND fragments from `begin` on: by vectors, where the row begins at a multiple of one.
static __device__ __forceinline__ void load_row(const element* from, u32 begin, u32 (&pairs)[OF_BAND][2]) {
  const u32 lane = threadIdx.x % 4;
#if LADDER
  const bool wide = (u64)from % 4 == 0;
#pragma unroll
  for (int m = 0; m < OF_BAND; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const element* const at = from + (begin + m) * 16 + half * 8 + lane * 2;
      pairs[m][half] = wide ? *(const u32*)at : at[0] | (u32)at[1] << 16;
    }
#else
  static_assert(OF_BAND % 2 == 0, "two fragments have 8 elements one after another");
  const bool wide = (u64)from % 16 == 0;
#pragma unroll
  for (int m = 0; m < OF_BAND; m += 2) {
    const element* const at = from + (begin + m) / (EACH / 4) * 4 * EACH + lane * EACH + (begin + m) % (EACH / 4) * 4;
    Bits<16> bits;
    if (wide) bits = load<16>((const char*)at);
    else
#pragma unroll
      for (int w = 0; w < 4; ++w) bits.words[w] = at[2 * w] | (u32)at[2 * w + 1] << 16;
#pragma unroll
    for (int w = 0; w < 4; ++w) pairs[m + w / 2][w % 2] = bits.words[w];
  }
#endif
}

// Queries of band n, `first` the warp's first column, part `part` of SPREAD. Returns the unit of column n * 8 + lane / 4.
static __device__ __forceinline__ float load_band(const batch_t& b, u32 i, u32 kv_head, u32 first, u32 n, u32 part,
                                                  queries_t& q) {
  const u32 column = first + n * 8 + threadIdx.x % 32 / 4, j = token_of_column(b, column);
  const element* const from = b.queries + (i64)i * b.query_stride + j * b.query_token_stride +
                              (i64)(kv_head * b.group + column - j * b.group) * b.query_head_stride;
  u32 pairs[OF_BAND][2] = {};
  if (column < columns_of(b)) load_row(from, part * OF_BAND, pairs);
  float result = 1;
#if EVENED
  float most = 0;
#pragma unroll
  for (int m = 0; m < HEAD_DIM / 16; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half)
      most = fmaxf(most, fmaxf(fabsf(decode<2>(pairs[m][half] & 0xffff)), fabsf(decode<2>(pairs[m][half] >> 16))));
#pragma unroll
  for (int step = 1; step < 4; step *= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, step));
  // The largest becomes 2^14 .. 2^15; infinities, and what is almost zero, stay what they are.
  const u32 exponent = __float_as_uint(most) >> 23;
  const u32 unit = exponent > 254 || exponent < 24 ? 127 : exponent - 14;
  const float factor = __uint_as_float((254 - unit) << 23);
  result = __uint_as_float(unit << 23);
#pragma unroll
  for (int m = 0; m < HEAD_DIM / 16; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const u32 two = pairs[m][half];
      pairs[m][half] = packed(decode<2>(two & 0xffff) * factor, decode<2>(two >> 16) * factor);
    }
#endif
#pragma unroll
  for (int m = 0; m < OF_BAND; ++m) q.at(n, part * OF_BAND + m) = make_uint2(pairs[m][0], pairs[m][1]);
  return result;
}

static __device__ __forceinline__ void load_queries(const batch_t& b, u32 i, u32 kv_head, u32 first, sums_t& all,
                                                    queries_t& q) {
#if STAGES
  q.pairs = all.queries, q.units = all.units;
  const u32 n = threadIdx.x / 32 / SPREAD;
  if (n < BANDS) {
    const float unit = load_band(b, i, kv_head, first, n, threadIdx.x / 32 % SPREAD, q);
    if (threadIdx.x % 4 == 0) all.units[n * 8 + threadIdx.x % 32 / 4] = unit;
  }
  __syncthreads();
#else
  (void)all;
#if STAGED
  q.pairs = (uint2*)all.own[threadIdx.x / 32];
#endif
#pragma unroll
  for (int n = 0; n < BANDS; ++n) {
    const float unit = load_band(b, i, kv_head, first, n, 0, q);
#pragma unroll
    for (int h = 0; h < 2; ++h) q.units[n][h] = __shfl_sync(~0u, unit, (2 * (threadIdx.x % 4) + h) * 4);
  }
#endif
}
