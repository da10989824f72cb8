// check(): recounts every invariant from scratch. O(pool + sequences); for tests and for doubt.
#include <algorithm>
#include <unordered_map>
#include <utility>

#include "pagedkv/errors.hpp"
#include "pagedkv/sequence_store.hpp"

namespace pagedkv {

namespace {
[[noreturn]] void broken(const std::string& what) { throw Error("invariant broken: " + what); }
}  // namespace

void BlockAllocator::check_lists() const {
    std::int32_t clean = 0, cached = 0, pending = 0;
    std::vector<bool> listed(static_cast<std::size_t>(total_));
    const auto visit = [&](BlockId b, BlockState expected, std::int32_t& count) {
        if (b < 0 || b >= total_ || listed[at(b)]) broken(join("block ", b, " is in the free lists twice, or does not exist"));
        if (state(b) != expected) broken(join("block ", b, " is in a list of another state"));
        listed[at(b)] = true;
        ++count;
    };
    for (std::int32_t i = 0; i < clean_top_; ++i) visit(clean_stack_[at(i)], BlockState::clean, clean);
    for (BlockId b = fresh_; b < total_; ++b) visit(b, BlockState::clean, clean);
    for (BlockId b = cached_list_.head; b >= 0; b = link(b).next) visit(b, BlockState::cached, cached);
    Step last = 0;
    for (BlockId b = pending_list_.head; b >= 0; b = link(b).next) {
        visit(b, BlockState::pending, pending);
        if (pending_step_[at(b)] < last) broken("pending blocks are not ordered by step");
        last = pending_step_[at(b)];
        if (last <= retired_ || !word(b).deferred) broken(join("block ", b, " is pending for a step that has retired"));
    }
    if (clean != this->clean() || cached != cached_ || pending != pending_) broken("a free list's length is not its count");
    for (BlockId b = 0; b < total_; ++b)
        if (listed[at(b)] == (state(b) == BlockState::in_use))
            broken(join("block ", b, " is both free and in use, or neither"));
}

void BlockAllocator::check(std::span<const std::int32_t> table_refs) const {
    check_lists();
    std::int32_t in_use = 0, pinned_only = 0;
    std::int64_t stored = 0;
    for (BlockId b = 0; b < total_; ++b) {
        if (pins_[at(b)] < 0 || refs(b) != table_refs[at(b)] + pins_[at(b)])
            broken(join("block ", b, " has ", refs(b), " references, recounted ", table_refs[at(b)], " + ", pins_[at(b)],
                        " pins"));
        if ((refs(b) > 0) != (state(b) == BlockState::in_use))
            broken(join("block ", b, ": in use is not the same as referenced"));
        if (state(b) == BlockState::clean && (fill(b) != 0 || published(b)))
            broken(join("clean block ", b, " holds something"));
        if (word(b).deferred && (state(b) == BlockState::clean || state(b) == BlockState::cached))
            broken(join("free block ", b, " still waits for a step"));
        if (state(b) == BlockState::cached && !published(b)) broken(join("cached block ", b, " is not findable"));
        if (refs(b) == 0) continue;
        ++in_use;
        stored += fill(b);
        if (refs(b) == pins_[at(b)]) ++pinned_only;
    }
    if (in_use != in_use_ || stored != stored_ || pinned_only != pinned_only_) broken("the sums over in-use blocks are wrong");
    if (peak_ < std::int64_t{in_use_} + pending_ || peak_ > total_) broken("the peak is not between now and the pool");
}

void SequenceStore::check_sequence(Row row, std::vector<std::int32_t>& table_refs) const {
    const Sequence& s = at(row);
    const std::int64_t length = s.table.tokens();
    if (map_.find(s.id) != row) broken(join("sequence ", s.id, " is not found in its row"));
    if (s.committed < 0 || s.committed > length || length > capacity(s)) broken(join("cursors of sequence ", s.id));
    if (s.known < 0 || s.emitted < 0 || s.emitted > s.table.size()) broken(join("known or emitted of sequence ", s.id));
    std::vector<BlockId> own(s.table.entries().begin(), s.table.entries().end());
    for (std::int64_t i = 0; i < s.table.size(); ++i) {
        const BlockId b = s.table[i];
        if (b < 0 || b >= blocks_.total()) broken(join("sequence ", s.id, " names block ", b));
        ++table_refs[static_cast<std::size_t>(b)];
        const std::int64_t tokens = std::clamp<std::int64_t>(length - math_.start(i), 0, math_.size());
        if (blocks_.fill(b) < tokens || blocks_.fill(b) > math_.size()) broken(join("fill of block ", b));
    }
    std::sort(own.begin(), own.end());
    if (std::adjacent_find(own.begin(), own.end()) != own.end()) broken(join("sequence ", s.id, " names a block twice"));
}

// The ids of a sequence go from where its index blocks end to what is known; nothing is published ahead of its commit.
void SequenceStore::check_content(Row row) const {
    const Sequence& s = at(row);
    const Content& c = contents_[static_cast<std::size_t>(row)];
    if (c.first + static_cast<std::int64_t>(c.ids.size()) != s.known) broken(join("the known ids of sequence ", s.id));
    if (c.salt == Interner::kUnknown || c.published > math_.index(std::min(s.committed, s.known)) ||
        c.first > math_.start(c.published))
        broken(join("what sequence ", s.id, " has published"));
}

void SequenceStore::check_groups() const {
    std::unordered_map<std::int32_t, std::pair<const Sequence*, std::int32_t>> first;  // by group: a member, and how many
    for (const Sequence& s : sequences_) {
        if (!s.live || s.group == ForkGroups::kNone) continue;
        auto& [member, count] = first.try_emplace(s.group, &s, 0).first->second;
        ++count;
        const auto common = static_cast<std::size_t>(groups_.common(s.group));
        if (common > s.table.entries().size()) broken(join("sequence ", s.id, " has less than its group has in common"));
        if (!std::ranges::equal(s.table.entries().first(common), member->table.entries().first(common)))
            broken(join("sequences ", s.id, " and ", member->id, " differ in what their group has in common"));
    }
    for (const auto& [group, found] : first)
        if (groups_.members(group) != found.second) broken(join("group ", group, " has ", found.second, " members"));
}

void SequenceStore::check() const {
    std::vector<std::int32_t> table_refs(static_cast<std::size_t>(blocks_.total()));
    std::int64_t tokens = 0, entries = 0;
    std::size_t live = 0;
    Row lowest = 0;
    bool gap = false;
    for (std::size_t i = 0; i < sequences_.size(); ++i) {
        const Sequence& s = sequences_[i];
        if (!s.live) gap = true;
        if (!gap) ++lowest;
        if (!s.live && s.table.size() > 0) broken(join("a freed sequence in row ", i, " still has blocks"));
        if (!s.live) continue;
        check_sequence(static_cast<Row>(i), table_refs);
        if (index_) check_content(static_cast<Row>(i));
        ++live;
        tokens += s.table.tokens();
        entries += s.table.size();
    }
    check_groups();
    if (live != map_.size()) broken("the number of live sequences is not the map's");
    if (lowest != rows_.lowest_free()) broken(join("row ", lowest, " is the lowest free, not ", rows_.lowest_free()));
    if (tokens != logical_tokens_ || entries != logical_blocks_) broken("the sums over sequences are wrong");
    if (retired_step_ < 0 || retired_step_ > last_step_) broken("the retired step is ahead of the planned ones");
    if (cow_copies_ < 0 || failed_admissions_ < 0) broken("a counter is negative");
    blocks_.check(table_refs);
    if (!index_) return;
    std::vector<std::int64_t> salts(index_->salts().slots()), digests(index_->digests().slots());
    for (std::size_t i = 0; i < sequences_.size(); ++i) {
        if (!sequences_[i].live) continue;
        ++salts[static_cast<std::size_t>(contents_[i].salt)];
        for (const Extra& e : contents_[i].extras) ++digests[static_cast<std::size_t>(e.number)];
    }
    index_->check(std::move(salts), std::move(digests));
}

}  // namespace pagedkv
