#include "store_model.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <set>

#include "pagedkv/errors.hpp"

using pagedkv::BlockId;
using pagedkv::BlockState;

void fault(const std::string& what) {
    std::fprintf(stderr, "fault: %s\n", what.c_str());
    std::abort();
}

StoreModel::StoreModel(pagedkv::SequenceStore& s)
    : store(s),
      size(s.math().size()),
      total(s.allocator().total()),
      caching(s.prefix_caching()),
      blocks(static_cast<std::size_t>(total)),
      lists(total),
      memory_(static_cast<std::size_t>(total * size)) {}

void StoreModel::end(pagedkv::SeqId id, pagedkv::Step after) {
    ModelSequence& s = live.at(id);
    ended_.push_back({s, after});
    drop_blocks(s, 0, after);
    live.erase(id);
}

std::vector<std::int64_t> StoreModel::content(BlockId b) const {
    return {memory_.begin() + b * size, memory_.begin() + (b + 1) * size};
}

pagedkv::Row StoreModel::lowest_free_row() const {
    std::set<pagedkv::Row> taken;
    for (const auto& [id, s] : live) taken.insert(s.row);
    pagedkv::Row row = 0;
    while (taken.contains(row)) ++row;
    return row;
}

void StoreModel::check_all() {
    try {
        store.check();
    } catch (const pagedkv::Error& error) {
        fault(error.what());
    }
    check_sequences();
    check_blocks();
    check_stats();
}

void StoreModel::check_sequences() {
    for (const auto& [id, s] : live) {
        demand(store.row_of(id) == s.row, "a sequence is not in its row");
        const pagedkv::Sequence& q = store.sequence(id);
        demand(q.table.tokens() == s.length, "length");
        demand(q.committed == s.committed, "committed length");
        demand(q.known == s.known(), "known ids");
        demand(q.emitted == s.emitted, "entries reported");
        const auto now = q.table.entries();
        demand(std::equal(now.begin(), now.end(), s.table.begin(), s.table.end()), "a page table changed by itself");
        check_tokens(s, "a token was overwritten");
        const ModelContent all = content_of(s, s.published);
        for (std::size_t i = 0; i < all.chain.size(); ++i)
            if (block(s.table[i]).published)
                demand(contents.of(s.table[i]).chain.size() == i + 1 && all.begins_with(contents.of(s.table[i])),
                       "a findable block is not what its holder has in it");
    }
    std::erase_if(ended_, [&](const EndedSequence& e) { return e.after <= retired; });
    for (const EndedSequence& e : ended_) check_tokens(e.last, "a token was overwritten that work in flight may read");
}

void StoreModel::check_tokens(const ModelSequence& s, const char* fault) const {
    for (std::int64_t p = 0; p < s.length; ++p) {
        const std::int64_t slot = s.table[static_cast<std::size_t>(p / size)] * size + p % size;
        demand(memory_[static_cast<std::size_t>(slot)] == s.tokens[static_cast<std::size_t>(p)], fault);
    }
}

void StoreModel::check_blocks() {
    const auto& pool = store.allocator();
    for (BlockId b = 0; b < total; ++b) {
        const ModelBlock& m = block(b);
        const BlockState right = state(b);
        const std::int64_t holders = refs(b);
        demand(pool.state(b) == right, "state of a block");
        demand(pool.pins(b) == m.pins && pool.refs(b) == holders, "references of a block");
        demand((holders > 0) == (right == BlockState::in_use), "the model's own lists");
        demand(pool.published(b) == m.published, "a block can be found, or not, against all reason");
        demand(pool.fill(b) == m.fill, "fill of a block");
        if (m.pins > 0 || m.published) demand(m.kept == content(b), "a pinned or findable block was written");
    }
}

void StoreModel::check_stats() {
    const pagedkv::CacheStats s = store.stats();
    std::int64_t tokens = 0, entries = 0, stored = 0, counts[4] = {};
    std::set<BlockId> held;
    for (const auto& [id, q] : live) {
        tokens += q.length;
        entries += static_cast<std::int64_t>(q.table.size());
        held.insert(q.table.begin(), q.table.end());
    }
    for (BlockId b = 0; b < total; ++b) {
        const BlockState now = state(b);
        ++counts[static_cast<std::size_t>(now)];
        if (now == BlockState::in_use) stored += block(b).fill;
    }
    peak_ = std::max(peak_, counts[2] + counts[3]);
    demand(s.clean_blocks == counts[0] && s.cached_blocks == counts[1], "free blocks");
    demand(s.in_use_blocks == counts[2] && s.pending_blocks == counts[3], "allocated blocks");
    demand(s.active_sequences == static_cast<std::int64_t>(live.size()), "active sequences");
    demand(s.logical_tokens == tokens && s.logical_blocks == entries, "sums over sequences");
    demand(s.saved_blocks() == entries - static_cast<std::int64_t>(held.size()), "blocks saved by sharing");
    demand(s.stored_tokens == stored, "tokens stored");
    demand(s.cow_copies == copies && s.failed_admissions == failed_admissions, "counters");
    demand(s.evictions == evictions && s.peak_allocated_blocks == peak_, "evictions or the peak");
    demand(s.queried_tokens == queried && s.hit_tokens == hit, "tokens asked and found");
    demand(s.internal_frag_percent() >= 0 && s.internal_frag_percent() <= 100, "fragmentation");
    demand(store.last_step() == last_step && store.retired_step() == retired, "steps");
}
