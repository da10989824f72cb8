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
    for (const auto& [id, s] : live)
        if (std::find(s.table.begin(), s.table.end(), b) != s.table.end()) return BlockState::in_use;
    if (block(b).pins > 0) return BlockState::in_use;
    if (block(b).busy_until > retired) return BlockState::pending;
    return block(b).published ? BlockState::cached : BlockState::clean;
}

std::int64_t StoreModel::copies_needed(const ModelSequence& s, std::int64_t upto) const {
    std::int64_t copied = 0;
    if (upto <= s.length) return 0;
    const auto end = std::min(static_cast<std::int64_t>(s.table.size()), blocks_for(upto));
    for (std::int64_t i = s.length / size; i < end; ++i) copied += block(s.table[static_cast<std::size_t>(i)]).pins > 0;
    return copied;
}

std::int64_t StoreModel::blocks_needed(const ModelSequence& s, std::int64_t upto) const {
    return std::max<std::int64_t>(0, blocks_for(upto) - static_cast<std::int64_t>(s.table.size())) + copies_needed(s, upto);
}

bool StoreModel::shared_between(const ModelSequence& s, std::int64_t from, std::int64_t to) const {
    for (std::int64_t i = from / size; i < blocks_for(to); ++i)
        if (block(s.table[static_cast<std::size_t>(i)]).pins > 0) return true;
    return false;
}

void StoreModel::handed_out(BlockId b) {
    const BlockState before = states_[static_cast<std::size_t>(b)];
    demand(before == BlockState::clean || before == BlockState::cached, "a block was handed out that was not free");
    demand(block(b).pins == 0, "a pinned block was handed out");
    demand(block(b).busy_until <= retired, "a block was handed out while a step may touch it");
    block(b) = ModelBlock{};
    block(b).written = true;  // its old content is void
}

void StoreModel::adopt_table(SeqId id) {
    ModelSequence& s = live.at(id);
    const auto now = store.sequence(id).table.entries();
    for (std::size_t i = 0; i < now.size(); ++i)
        if (i >= s.table.size() || s.table[i] != now[i]) handed_out(now[i]);
    s.table.assign(now.begin(), now.end());
}

void StoreModel::apply(const pagedkv::StepPlan& plan) {
    const auto c = plan.copies();
    for (std::size_t i = 0; i < c.size(); i += 2) {
        for (std::size_t k = 1; k < c.size(); k += 2) demand(c[i] != c[k], "a copy reads what the same plan writes");
        demand(block(c[i]).pins > 0, "a block was copied that nobody shares");
        demand(store.allocator().state(c[i + 1]) == BlockState::in_use, "a copy goes into a free block");
        std::copy_n(memory_.begin() + c[i] * size, size, memory_.begin() + c[i + 1] * size);
        ++copies;
    }
    const auto u = plan.updates();
    for (std::size_t i = 0; i < u.size(); i += 3) device_tables_[u[i]][u[i + 1]] = u[i + 2];
    for (const pagedkv::Row row : plan.rows())
        for (const auto& [id, s] : live)
            if (s.row == row)
                for (std::size_t k = 0; k < s.table.size(); ++k)
                    demand(device_tables_[row][static_cast<std::int32_t>(k)] == s.table[k],
                           "the device's block table is stale");
    last_step = plan.step;
}

void StoreModel::write(ModelSequence& s, std::int64_t from, std::int64_t to) {
    s.tokens.resize(static_cast<std::size_t>(to));
    for (std::int64_t p = from; p < to; ++p) {
        const BlockId b = s.table[static_cast<std::size_t>(p / size)];
        s.tokens[static_cast<std::size_t>(p)] = next_token_;
        memory_[static_cast<std::size_t>(b * size + p % size)] = next_token_++;
        block(b).written = true;
    }
}

void StoreModel::drop_blocks(ModelSequence& s, std::int64_t keep, pagedkv::Step after) {
    while (static_cast<std::int64_t>(s.table.size()) > keep) {
        ModelBlock& b = block(s.table.back());
        b.busy_until = std::max(b.busy_until, after);
        s.table.pop_back();
    }
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
        const auto now = q.table.entries();
        demand(std::equal(now.begin(), now.end(), s.table.begin(), s.table.end()), "a page table changed by itself");
        for (std::int64_t p = 0; p < s.length; ++p) {
            const std::int64_t slot = s.table[static_cast<std::size_t>(p / size)] * size + p % size;
            demand(memory_[static_cast<std::size_t>(slot)] == s.tokens[static_cast<std::size_t>(p)], "a token was overwritten");
        }
    }
}

void StoreModel::check_blocks() {
    const auto& pool = store.allocator();
    for (BlockId b = 0; b < total; ++b) {
        ModelBlock& m = block(b);
        demand(pool.state(b) == expected_state(b), "state of a block");
        demand(pool.pins(b) == m.pins, "pins of a block");
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
    for (const auto& [id, q] : live) tokens += q.length, entries += static_cast<std::int64_t>(q.table.size());
    for (const BlockState state : states_) ++counts[static_cast<std::size_t>(state)];
    demand(s.clean_blocks == counts[0] && s.cached_blocks == counts[1], "free blocks");
    demand(s.in_use_blocks == counts[2] && s.pending_blocks == counts[3], "allocated blocks");
    demand(s.active_sequences == static_cast<std::int64_t>(live.size()), "active sequences");
    demand(s.logical_tokens == tokens && s.logical_blocks == entries, "sums over sequences");
    demand(s.saved_blocks() == 0, "nothing is shared between sequences here");
    demand(s.cow_copies == copies && s.failed_admissions == failed_admissions, "counters");
    demand(s.internal_frag_percent() >= 0 && s.internal_frag_percent() <= 100, "fragmentation");
    demand(store.last_step() == last_step && store.retired_step() == retired, "steps");
}
