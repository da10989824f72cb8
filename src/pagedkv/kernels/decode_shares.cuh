// How the tokens of a batch are shared out among CTAs. Behind decode_pieces.cuh.
//
// Sequences one after another are a row of rounds of 64 tokens, cut into equal shares. A CTA walks the sequences of its
// share. It writes what begins and ends there as a result, and at most two pieces for decode_merge.cu: slot 2 v of
// share v is a sequence that began before, slot 2 v + 1 one that goes on behind it.
// Who has which share depends on lengths and shapes alone, so the same inputs are added in the same order.

#define LONG 128  // rounds

// a / b, rounded up; in 32 bits, which take a third of the time, where that goes.
static __device__ __forceinline__ u64 divided_up(u64 a, u64 b) {
  const u64 more = a + b - 1;
  return (more | b) >> 32 ? more / b : (u64)((u32)more / (u32)b);
}

// Of a CTA: rounds [at, end) of the batch are still to be done, the first one in `sequence`, which has `before` in front.
// In shared memory: while tiles are worked on, registers are what there is least of.
struct share_t {
  u64 at, end, size, before, behind;  // the sequence ends with round `behind`
  u32 sequence;
  int open, last;  // the sequence that goes on behind this share, and the share in which it ends
};

// Share blockIdx.y of gridDim.y; of no rounds where there are fewer shares.
static __device__ __forceinline__ void find_share(const batch_t& b, share_t& share) {
  __shared__ u64 totals[WARPS];
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, threads = WARPS * 32;
  const u32 each = ((u32)b.count + threads - 1) / threads;
  const u32 from = threadIdx.x * each, left = from < (u32)b.count ? (u32)b.count - from : 0;
  const u32 mine = left < each ? left : each;
  u64 sum = 0;
  for (u32 at = 0; at < mine; ++at) sum += rounds_of(span_of(b, from + at));
  u64 upto = sum;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const u64 other = __shfl_up_sync(~0u, upto, step);
    if (lane >= step) upto += other;
  }
  if (lane == 31) totals[warp] = upto;
  __syncthreads();
  u64 all = 0;
#pragma unroll
  for (u32 w = 0; w < WARPS; ++w) {
    if (w < warp) upto += totals[w];
    all += totals[w];
  }
  // Equal shares that run all at once, unless they would be long: then more than one after another.
  const u64 wanted = divided_up(divided_up(all, b.at_a_time), LONG) * b.at_a_time;
  const u64 fair = divided_up(all, wanted < gridDim.y ? wanted : gridDim.y);
  const u64 size = fair > b.smallest_share ? fair : b.smallest_share;
  const u64 begin = blockIdx.y * size, end = begin + size < all ? begin + size : all;
  if (begin >= all && threadIdx.x == 0) share = {0, 0, size, 0, 0, 0, -1, 0};
  if (begin < upto && begin >= upto - sum) {
    u64 before = upto - sum;
    u32 i = from;
    for (;; ++i) {
      const u32 rounds = rounds_of(span_of(b, i));
      if (begin < before + rounds) break;
      before += rounds;
    }
    share = {begin, end, size, before, 0, i, -1, 0};
  }
  __syncthreads();
}

// What of a sequence with `before` rounds in front of it lies in [at, end), and in which round it ends.
static __device__ __forceinline__ piece_t piece_of(const batch_t& b, u32 i, u64 before, u64 at, u64 end, u64& behind) {
  piece_t piece{span_of(b, i), 0, 0};
  behind = before + rounds_of(piece.span);
  const u32 base = piece.span.first / TILE * TILE;
  piece.begin = base + (u32)(at - before) * ROUND;
  piece.end = behind > end ? base + (u32)(end - before) * ROUND : piece.span.stop;
  return piece;
}

// Has `worker` sum up each piece of this CTA's share, and makes results of what that leaves in `all`. A worker knows the
// piece that comes next, so that what it needs of that is under way before this one's result is made.
template <class Worker>
static __device__ __forceinline__ void for_each_piece(const batch_t& b, sums_t& all, Worker& worker) {
  __shared__ share_t share;
  find_share(b, share);
  if (share.at < share.end) {
    u64 behind;
    worker.begin(b, piece_of(b, share.sequence, share.before, share.at, share.end, behind), all);
  }
  while (share.at < share.end) {
    u64 behind, unused;
    const piece_t piece = piece_of(b, share.sequence, share.before, share.at, share.end, behind);
    piece_t next{};
    if (behind < share.end) next = piece_of(b, share.sequence + 1, behind, behind, share.end, unused);
    if (threadIdx.x == 0) {
      share.behind = behind;
      all.length = number_of(b.lengths, share.sequence), all.start = number_of(b.starts, share.sequence);
    }
    __syncthreads();
    worker.sum_up(b, piece, next, share.sequence, all);
    __syncthreads();
    const bool first = share.at == share.before, whole = first && share.behind <= share.end;
    finish(b, share.sequence, blockIdx.x, all, whole ? -1 : (i64)blockIdx.y * 2 + first);
    __syncthreads();
    if (threadIdx.x == 0) {
      if (first && !whole) share.open = (int)share.sequence, share.last = (int)divided_up(share.behind, share.size) - 1;
      share.at = share.before = share.behind;
      ++share.sequence;
    }
    __syncthreads();
  }
  if (b.marks && threadIdx.x == 0 && blockIdx.x == 0 && blockIdx.z == 0) {
    b.marks[2 * blockIdx.y] = share.open;
    b.marks[2 * blockIdx.y + 1] = share.last;
  }
}
