// How the tokens of a batch are shared out among CTAs. Behind decode_pieces.cuh.
//
// Sequences one after another are a row of rounds, cut into equal shares, one for each CTA of a KV head. A CTA walks the
// sequences of its share. It writes what begins and ends there as a result, and at most two pieces for decode_merge.cu:
// slot 2 v of share v is a sequence that began before, slot 2 v + 1 one that goes on behind it.
// Who has which share depends on lengths and shapes alone, so the same inputs are added in the same order.

// A CTA's share: rounds [at, end) are still to be done, the first one in `sequence`, which has `before` rounds in front
// of it and ends with round `behind`. In shared memory: while tiles are worked on, registers are what there is least of.
struct share_t {
  u32 at, end, size, before, behind, sequence;
};

static __device__ __forceinline__ void find_share(const batch_t& b, share_t& share) {
  __shared__ u32 totals[WARPS];
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, threads = WARPS * 32;
  const u32 each = ((u32)b.count + threads - 1) / threads, from = threadIdx.x * each;
  u32 sum = 0;
  for (u32 i = from; i < from + each && i < (u32)b.count; ++i) sum += rounds_of(span_of(b, i));
  u32 upto = sum;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const u32 other = __shfl_up_sync(~0u, upto, step);
    if (lane >= step) upto += other;
  }
  if (lane == 31) totals[warp] = upto;
  __syncthreads();
  u32 all = 0;
#pragma unroll
  for (u32 w = 0; w < WARPS; ++w) {
    if (w == warp) upto += all;
    all += totals[w];
  }
  const u32 size = max((all + gridDim.y - 1) / gridDim.y, (u32)b.smallest_share), begin = blockIdx.y * size;
  if (begin >= all && threadIdx.x == 0) share = {0, 0, size, 0, 0, 0};
  if (begin < upto && begin >= upto - sum) {
    u32 before = upto - sum, i = from;
    for (;; ++i) {
      const u32 rounds = rounds_of(span_of(b, i));
      if (begin < before + rounds) break;
      before += rounds;
    }
    share = {begin, min(begin + size, all), size, before, 0, i};
  }
  __syncthreads();
}

// What of sequence i, which has `before` rounds in front of it, lies in rounds [at, end), and in which round it ends.
static __device__ __forceinline__ piece_t piece_of(const batch_t& b, u32 i, u32 before, u32 at, u32 end, u32& behind) {
  piece_t piece{span_of(b, i), 0, 0};
  behind = before + rounds_of(piece.span);
  const u32 base = piece.span.first / TILE * TILE;
  piece.begin = base + (at - before) * ROUND;
  piece.end = behind > end ? base + (end - before) * ROUND : piece.span.stop;
  return piece;
}

// For decode_merge.cu: the sequence that goes on behind this share, and the share in which it ends.
static __device__ __forceinline__ void mark(const batch_t& b, int open, u32 last) {
  if (b.marks && threadIdx.x == 0 && blockIdx.x == 0 && blockIdx.z == 0)
    ((int2*)b.marks)[blockIdx.y] = make_int2(open, (int)last);
}

// Has `worker` sum up each piece of this CTA's share, and makes results of what that leaves in `all`. A worker knows the
// piece that comes next, so that what it needs of that is under way before this one's result is made.
template <class Worker>
static __device__ __forceinline__ void for_each_piece(const batch_t& b, sums_t& all, Worker& worker) {
  __shared__ share_t share;
  // Kept here while tiles are worked on, as the share is; not right behind it, or one load could read of both.
  __shared__ alignas(16) piece_t coming;
  if (b.marks) let_merge_begin();
  find_share(b, share);
  if (share.at == share.end) return mark(b, -1, 0);
  u32 behind;
  piece_t piece = piece_of(b, share.sequence, share.before, share.at, share.end, behind);
  worker.begin(b, piece, all);
  for (;;) {
    const u32 i = share.sequence;
    if (threadIdx.x == 0) {
      share.behind = behind;
      all.length = number_of(b.lengths, i), all.start = number_of(b.starts, i);
    }
    {
      piece_t next{};
      if (behind < share.end) next = piece_of(b, i + 1, behind, behind, share.end, behind);
      if (threadIdx.x == 0) coming = next;
      __syncthreads();
      worker.sum_up(b, piece, next, i, all);
    }
    __syncthreads();
    const bool first = share.at == share.before, whole = first && share.behind <= share.end;
    finish(b, share.sequence, all, whole ? -1 : (i64)blockIdx.y * 2 + first);
    if (share.behind >= share.end) {
      const bool open = first && !whole;
      return mark(b, open ? (int)share.sequence : -1, open ? (share.behind - 1) / share.size : 0);
    }
    __syncthreads();
    piece = coming;
    if (threadIdx.x == 0) share.at = share.before = share.behind, ++share.sequence;
    __syncthreads();
  }
}
