#include "observed.hpp"

#include <algorithm>
#include <limits>

#include "pagedkv/errors.hpp"
#include "store_calls.hpp"

namespace observed {

using pagedkv::join;

std::string state(const pagedkv::SequenceStore& store, const pagedkv::BlockAllocator& blocks) {
    const pagedkv::CacheStats s = store.stats();
    std::string text = "stats";
    for (const std::int64_t n :
         {s.total_blocks, s.clean_blocks, s.cached_blocks, s.in_use_blocks, s.pending_blocks, s.active_sequences,
          s.logical_tokens, s.stored_tokens, s.logical_blocks, s.table_blocks, s.cow_copies, s.evictions,
          s.peak_allocated_blocks, s.queried_tokens, s.hit_tokens, s.failed_admissions, s.block_size})
        text += join(" ", n);
    text += join("\nsteps ", store.last_step(), " ", store.retired_step(), "\n");
    for (const pagedkv::SeqId id : store.seq_ids()) {
        const pagedkv::Sequence& q = store.sequence(id);
        text += join("sequence ", id, " row ", store.row_of(id), " length ", q.table.tokens(), " committed ", q.committed,
                     " known ", q.known, " emitted ", q.emitted, " table");
        for (const pagedkv::BlockId b : q.table.entries()) text += join(" ", b);
        text += "\n";
    }
    for (pagedkv::BlockId b = 0; b < blocks.total(); ++b)
        text += join("block ", b, " state ", static_cast<int>(blocks.state(b)), " refs ", blocks.refs(b), " pins ",
                     blocks.pins(b), " fill ", blocks.fill(b), " published ", static_cast<int>(blocks.published(b)), "\n");
    return text;
}

namespace {
std::string events(pagedkv::SequenceStore& store) {
    const pagedkv::EventBatch batch = store.drain_events();
    std::string text = "\nevents";
    for (std::size_t i = 0; i < batch.kinds.size(); ++i)
        text += join(" ", batch.kinds[i], ":", batch.blocks[i], ":", batch.serials[i], ":", batch.parents[i], ":",
                     batch.token_starts[i], ":", batch.salt_digests[i]);
    for (const std::int32_t token : batch.tokens) text += join(" ", token);
    return text;
}
}  // namespace

std::string future(pagedkv::SequenceStore& store) {
    std::string text = events(store) + "\nrows";
    pagedkv::SeqId unused = std::numeric_limits<pagedkv::SeqId>::min();
    for (int i = 0; i < 5; ++i) {
        while (store.row_of(unused) >= 0) ++unused;
        text += join(" ", calls::admit(store, unused, 0).row);
    }
    for (pagedkv::Step step = store.retired_step(); step <= store.last_step(); ++step) {
        store.retire(step);
        text += join("\nstep ", step, " blocks");
        while (store.allocator().available() > 0) text += join(" ", calls::allocate(store.allocator(), 1)[0]);
    }
    // What the sequences still hold, and in which order it comes back.
    store.check();
    text += join("\n", state(store, store.allocator()));
    calls::Ids live = store.seq_ids();
    std::reverse(live.begin(), live.end());
    store.free(live, std::nullopt);
    text += "freed";
    while (store.allocator().available() > 0) text += join(" ", calls::allocate(store.allocator(), 1)[0]);
    store.check();
    text += events(store);
    return text + "\n" + state(store, store.allocator());
}

}  // namespace observed
