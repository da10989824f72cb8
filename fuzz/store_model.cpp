#include "store_model.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <set>

#include "pagedkv/errors.hpp"

using pagedkv::BlockId;
using pagedkv::BlockState;
using pagedkv::SeqId;

void fault(const std::string& what) {
    std::fprintf(stderr, "fault: %s\n", what.c_str());
    std::abort();
}

StoreModel::StoreModel(pagedkv::SequenceStore& s)
    : store(s),
      size(s.math().size()),
      total(s.allocator().total()),
      blocks(static_cast<std::size_t>(total)),
      memory_(static_cast<std::size_t>(total * size)),
      states_(static_cast<std::size_t>(total), BlockState::clean) {}

BlockState StoreModel::expected_state(BlockId b) const {
    if (refs(b) > 0) return BlockState::in_use;
    if (block(b).busy_until > retired) return BlockState::pending;
    return block(b).published ? BlockState::cached : BlockState::clean;
}

// Page-table entries that hold it, and pins.
std::int64_t StoreModel::refs(BlockId b) const {
    std::int64_t holders = block(b).pins;
    for (const auto& [id, s] : live) holders += std::count(s.table.begin(), s.table.end(), b);
    return holders;
}

bool StoreModel::shared_between(const ModelSequence& s, std::int64_t from, std::int64_t to) const {
    for (std::int64_t i = from / size; i < blocks_for(to); ++i)
        if (!writable_in_place(s, i, 0)) return true;
    return false;
}

// The last holder writes in place, but not over tokens that work in flight may still read for one that has ended.
bool StoreModel::writable_in_place(const ModelSequence& s, std::int64_t i, std::int64_t left) const {
    const BlockId b = s.table[static_cast<std::size_t>(i)];
    const std::int64_t own = std::max<std::int64_t>(0, s.length - i * size);
    return refs(b) - left <= 1 && (block(b).fill <= own || block(b).busy_until <= retired);
}

void StoreModel::handed_out(BlockId b) {
    const BlockState before = states_[static_cast<std::size_t>(b)];
    demand(before == BlockState::clean || before == BlockState::cached, "a block was handed out that was not free");
    demand(block(b).pins == 0, "a pinned block was handed out");
    demand(block(b).busy_until <= retired, "a block was handed out while a step may touch it");
    block(b) = ModelBlock{};
    block(b).written = true;  // its old content is void
}

void StoreModel::drop_blocks(ModelSequence& s, std::int64_t keep, pagedkv::Step after) {
    while (static_cast<std::int64_t>(s.table.size()) > keep) {
        ModelBlock& b = block(s.table.back());
        b.busy_until = std::max(b.busy_until, after);
        s.table.pop_back();
    }
    s.emitted = std::min(s.emitted, static_cast<std::int64_t>(s.table.size()));
}

void StoreModel::end(SeqId id, pagedkv::Step after) {
    ModelSequence& s = live.at(id);
    ended_.push_back({s, after});
    drop_blocks(s, 0, after);
    live.erase(id);
}

std::vector<std::int64_t> StoreModel::content(BlockId b) const {
    return {memory_.begin() + b * size, memory_.begin() + (b + 1) * size};
}

void StoreModel::pin(BlockId b) {
    if (block(b).pins++ == 0) block(b).kept = content(b);
}

void StoreModel::publish(BlockId b) {
    if (block(b).pins == 0 && !block(b).published) block(b).kept = content(b);
    block(b).published = true;
    block(b).fill = store.allocator().fill(b);
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
        demand(q.known == s.known, "known ids");
        demand(q.emitted == s.emitted, "entries reported");
        const auto now = q.table.entries();
        demand(std::equal(now.begin(), now.end(), s.table.begin(), s.table.end()), "a page table changed by itself");
        check_tokens(s, "a token was overwritten");
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
        ModelBlock& m = block(b);
        demand(pool.state(b) == expected_state(b), "state of a block");
        demand(pool.pins(b) == m.pins && pool.refs(b) == refs(b), "references of a block");
        if (m.published && !m.written) demand(pool.fill(b) >= m.fill, "tokens of a findable block were forgotten");
        if (pool.published(b)) demand(m.published && !m.written, "a block is findable though it was written or unpublished");
        else demand(!m.published || m.written, "a block is no longer findable and nobody wrote it");
        m.published = pool.published(b);
        m.fill = pool.fill(b);
        m.written = false;
        if (m.pins > 0 || m.published) demand(m.kept == content(b), "a pinned or findable block was written");
        states_[static_cast<std::size_t>(b)] = pool.state(b);
    }
}

void StoreModel::check_stats() {
    const pagedkv::CacheStats s = store.stats();
    std::int64_t tokens = 0, entries = 0, counts[4] = {};
    std::set<BlockId> held;
    for (const auto& [id, q] : live) {
        tokens += q.length;
        entries += static_cast<std::int64_t>(q.table.size());
        held.insert(q.table.begin(), q.table.end());
    }
    for (const BlockState state : states_) ++counts[static_cast<std::size_t>(state)];
    demand(s.clean_blocks == counts[0] && s.cached_blocks == counts[1], "free blocks");
    demand(s.in_use_blocks == counts[2] && s.pending_blocks == counts[3], "allocated blocks");
    demand(s.active_sequences == static_cast<std::int64_t>(live.size()), "active sequences");
    demand(s.logical_tokens == tokens && s.logical_blocks == entries, "sums over sequences");
    demand(s.saved_blocks() == entries - static_cast<std::int64_t>(held.size()), "blocks saved by sharing");
    demand(s.cow_copies == copies && s.failed_admissions == failed_admissions, "counters");
    demand(s.internal_frag_percent() >= 0 && s.internal_frag_percent() <= 100, "fragmentation");
    demand(store.last_step() == last_step && store.retired_step() == retired, "steps");
}
