// Construction, look-up, statistics: what every operation of the store starts from.
#include "pagedkv/sequence_store.hpp"

#include <algorithm>

#include "pagedkv/errors.hpp"

namespace pagedkv {

namespace {
const StoreOptions& checked(const StoreOptions& o) {
    if (o.num_blocks < 1 || o.num_blocks > kMaxBlocks)
        throw InvalidArgument(join("num_blocks is ", o.num_blocks, "; a pool has 1 to ", kMaxBlocks, " blocks"));
    if (o.block_size < 1 || o.block_size > kMaxBlockSize)
        throw InvalidArgument(join("block_size is ", o.block_size, "; a block holds 1 to ", kMaxBlockSize, " tokens"));
    if (o.scratch_blocks < 0 || o.scratch_blocks > kMaxBlocks - o.num_blocks)
        throw InvalidArgument(join("scratch_blocks is ", o.scratch_blocks, "; give 0 or the few blocks used for padding"));
    if (o.watermark < 0 || (o.watermark > 0 && o.watermark >= o.num_blocks))
        throw InvalidArgument(join("watermark is ", o.watermark, " blocks of a pool of ", o.num_blocks,
                                   "; it must be at least 0 and smaller than the pool"));
    if (o.max_tokens && (*o.max_tokens < 1 || *o.max_tokens > kMaxTokens))
        throw InvalidArgument(join("max_tokens is ", *o.max_tokens, "; give 1 to ", kMaxTokens, ", or None"));
    return o;
}
}  // namespace

SequenceStore::SequenceStore(const StoreOptions& options)
    : options_(checked(options)),
      math_(static_cast<std::int32_t>(options.block_size)),
      blocks_(options.num_blocks, 0, 0),
      events_(4 * options.num_blocks),
      always_fits_(std::min({kMaxTokens, options.max_tokens.value_or(kMaxTokens), math_.start(blocks_.total())})) {
    if (!options.prefix_caching) return;
    index_ = std::make_unique<PrefixIndex>(blocks_, math_.size(), options.constant_hash);
    index_->set_events(&events_);
}

void SequenceStore::unknown(SeqId id) const {
    throw SequenceState(
        join("sequence ", id, " is not registered (", map_.size(), " are); admit it first, and do not use it after free"));
}

void SequenceStore::out_of_blocks(std::int64_t needed, std::int64_t available, const char* what) const {
    throw OutOfBlocks(join(what, " needs ", needed, " blocks, ", available, " available and ", blocks_.pending(),
                           " pending; free or preempt sequences, or retire finished steps"),
                      needed, available, blocks_.pending());
}

const Sequence& SequenceStore::sequence(SeqId id) const {
    const Row row = map_.find(id);
    if (row < 0) unknown(id);
    return at(row);
}

// Batch numbers are 32 bits; when they wrap, no sequence may still carry an old one.
void SequenceStore::start_batch() {
    if (++batch_ != 0) return;
    for (Sequence& s : sequences_) s.batch = 0;
    batch_ = 1;
}

// Pass 1 of every batch: ids to rows, each named once.
void SequenceStore::resolve(Ids ids) {
    items_.resize(ids.size());
    start_batch();
    for (std::size_t i = 0; i < ids.size(); ++i) {
        const Row row = map_.find(ids[i]);
        if (row < 0) unknown(ids[i]);
        Sequence& s = at(row);
        if (s.batch == batch_)
            throw InvalidArgument(join("sequence ", ids[i], " is named twice in one batch; name each sequence once"));
        s.batch = batch_;
        items_[i] = Item{row, s.table.tokens(), 0, -1};
    }
}

void SequenceStore::resolve(Ids ids, Ids values, const char* what) {
    if (ids.size() != values.size())
        throw InvalidArgument(join(ids.size(), " sequence ids but ", values.size(), " ", what, "; give one for each"));
    resolve(ids);
    for (std::size_t i = 0; i < values.size(); ++i) {
        if (values[i] < 0)
            throw InvalidArgument(join(what, "[", i, "] is ", values[i], " for sequence ", ids[i], "; it cannot be negative"));
        items_[i].count = values[i];
    }
}

// A sequence may want to hold this many tokens in all; throws if it never can.
void SequenceStore::check_target(const Sequence& s, std::int64_t tokens) const {
    if (options_.max_tokens && tokens > *options_.max_tokens)
        throw InvalidArgument(join("sequence ", s.id, " would hold ", tokens, " tokens, max_tokens is ", *options_.max_tokens,
                                   "; finish it, or build the manager with a larger max_tokens"));
    const std::int64_t needed = math_.index(tokens - 1) + 1;  // tokens >= 1 here; no overflow near 2^63
    if (needed > blocks_.total())
        throw NeverFits(join("sequence ", s.id, " needs ", needed, " blocks for ", tokens, " tokens, the whole pool has ",
                             blocks_.total(), "; reject it, or use a larger pool"),
                        needed, blocks_.total());
    if (tokens > kMaxTokens)
        throw InvalidArgument(join("sequence ", s.id, " would hold ", tokens, " tokens; ", kMaxTokens, " is the most"));
}

CacheStats SequenceStore::stats() const {
    CacheStats s;
    s.total_blocks = blocks_.total();
    s.clean_blocks = blocks_.clean();
    s.cached_blocks = blocks_.cached();
    s.in_use_blocks = blocks_.in_use();
    s.pending_blocks = blocks_.pending();
    s.active_sequences = static_cast<std::int64_t>(map_.size());
    s.logical_tokens = logical_tokens_;
    s.stored_tokens = blocks_.stored_tokens();
    s.logical_blocks = logical_blocks_;
    s.table_blocks = blocks_.in_use() - blocks_.pinned_only();
    s.cow_copies = cow_copies_;
    s.evictions = blocks_.evictions();
    s.peak_allocated_blocks = blocks_.peak_allocated();
    s.failed_admissions = failed_admissions_;
    s.queried_tokens = queried_tokens_;
    s.hit_tokens = hit_tokens_;
    s.block_size = math_.size();
    return s;
}

std::vector<SeqId> SequenceStore::seq_ids() const {
    std::vector<SeqId> ids;
    ids.reserve(map_.size());
    for (const Sequence& s : sequences_)
        if (s.live) ids.push_back(s.id);
    return ids;
}

}  // namespace pagedkv
