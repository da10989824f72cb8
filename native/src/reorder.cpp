// Reorder: the beam step. Every named sequence becomes what another one of the batch was before the call.
//
//   before   a [ P P P | 7 ]   b [ P P P | 8 ]   c [ P P P | 9 ]       parents [1, 1, 0]
//   after    a [ P P P | 8 ]   b [ P P P | 8 ]   c [ P P P | 7 ]       block 9 is free, 8 has two holders
//
// All old tables are read, and all new references taken, before any old one is dropped. Entries that stay the same,
// and everything below the group's common entries, are not touched.
#include <algorithm>

#include "pagedkv/errors.hpp"
#include "pagedkv/sequence_store.hpp"

namespace pagedkv {

namespace {
// Entries of `old` from `first` on that are another block in `next`, or that no plan has reported yet.
std::int64_t changed(std::span<const BlockId> old, std::span<const BlockId> next, std::int64_t first, std::int64_t emitted) {
    const auto known = static_cast<std::size_t>(std::min<std::int64_t>(emitted, static_cast<std::int64_t>(next.size())));
    auto count = static_cast<std::int64_t>(next.size() - known);
    for (auto i = static_cast<std::size_t>(first); i < known; ++i) count += old[i] != next[i] ? 1 : 0;
    return count;
}
}  // namespace

void SequenceStore::resolve_parents(Ids ids, Ids parents) {
    if (ids.size() != parents.size())
        throw InvalidArgument(join(ids.size(), " sequence ids but ", parents.size(), " parent indices; give one for each"));
    resolve(ids);
    for (std::size_t i = 0; i < parents.size(); ++i) {
        if (parents[i] < 0 || parents[i] >= static_cast<std::int64_t>(ids.size()))
            throw InvalidArgument(join("parent_indices[", i, "] is ", parents[i], " for sequence ", ids[i],
                                       "; give the place of the parent in this call's seq_ids, 0 to ",
                                       static_cast<std::int64_t>(ids.size()) - 1));
        items_[i].count = parents[i];
    }
}

// What one sequence is about to become: its parent as it is now.
SequenceStore::Move SequenceStore::move_to(std::size_t i) {
    Sequence& s = at(items_[i].row);
    const Row from = items_[static_cast<std::size_t>(items_[i].count)].row;
    Sequence& parent = at(from);
    Move move{};
    const std::int64_t entries = math_.blocks(parent.table.tokens());
    const bool related = s.group == parent.group && s.group != ForkGroups::kNone;
    move.first = related ? std::min(groups_.common(s.group), entries) : 0;
    move.begin = moved_.size();
    const auto table = parent.table.entries();
    moved_.insert(moved_.end(), table.begin() + static_cast<std::ptrdiff_t>(move.first),
                  table.begin() + static_cast<std::ptrdiff_t>(entries));
    move.end = moved_.size();
    move.tokens = parent.table.tokens();
    move.committed = parent.committed;
    move.known = parent.known;
    move.group = related ? s.group : group_for_copies(parent, entries);
    if (index_) moved_contents_[i] = content(from);
    s.table.make_room_to_grow(entries);
    return move;
}

void SequenceStore::plan_moves(StepPlan::Counts& counts) {
    moves_.assign(items_.size(), Move{});
    moved_.clear();
    if (index_) moved_contents_.assign(items_.size(), Content{});
    groups_.make_room(items_.size());
    counts.served = static_cast<std::int64_t>(items_.size());
    for (std::size_t i = 0; i < items_.size(); ++i) {
        const Sequence& s = at(items_[i].row);
        const auto parent = static_cast<std::size_t>(items_[i].count);
        if (parent == i) {
            counts.updates += s.table.size() - s.emitted;
            continue;
        }
        moves_[i] = move_to(i);
        const Sequence& from = at(items_[parent].row);
        const auto entries = static_cast<std::size_t>(math_.blocks(from.table.tokens()));
        counts.updates += changed(s.table.entries(), from.table.entries().first(entries), moves_[i].first, s.emitted);
    }
}

void SequenceStore::take_new_references(std::size_t i) {
    const Move& move = moves_[i];
    const std::span<const BlockId> old = at(items_[i].row).table.entries();
    auto column = static_cast<std::size_t>(move.first);
    for (std::size_t k = move.begin; k < move.end; ++k, ++column)
        if (column >= old.size() || old[column] != moved_[k]) blocks_.share(moved_[k], 1);
    groups_.join(move.group);
    if (index_) hold(moved_contents_[i]);
}

// Deepest first, as every release.
void SequenceStore::drop_old_references(const Sequence& s, const Move& move) {
    const std::span<const BlockId> old = s.table.entries();
    const std::size_t next = static_cast<std::size_t>(move.first) + (move.end - move.begin);
    for (std::size_t column = old.size(); column-- > static_cast<std::size_t>(move.first);)
        if (column >= next || old[column] != moved_[move.begin + column - static_cast<std::size_t>(move.first)])
            blocks_.release(old[column], 0);
}

void SequenceStore::become(std::size_t i, const Reporter& report) {
    const Row row = items_[i].row;
    const Move& move = moves_[i];
    Sequence& s = at(row);
    drop_old_references(s, move);
    const std::int64_t old_size = s.table.size();
    const std::span<const BlockId> next(moved_.data() + move.begin, move.end - move.begin);
    const std::int64_t size = move.first + static_cast<std::int64_t>(next.size());
    for (std::int64_t k = std::min<std::int64_t>(s.emitted, move.first); k < size; ++k) {
        const BlockId b = k < move.first ? s.table[k] : next[static_cast<std::size_t>(k - move.first)];
        if (k >= s.emitted || s.table[k] != b) report(row, k, b);
    }
    s.table.replace_from(move.first, next);
    s.emitted = static_cast<std::int32_t>(size);
    logical_blocks_ += size - old_size;
    set_length(s, move.tokens);
    s.committed = move.committed;
    s.known = move.known;
    if (index_) {
        forget(content(row));
        std::swap(content(row), moved_contents_[i]);
    }
    groups_.leave(s.group);
    s.group = move.group;
    groups_.shrink(s.group, size);
}

void SequenceStore::reorder(Ids ids, Ids parents, StepPlan& plan) {
    resolve_parents(ids, parents);
    StepPlan::Counts counts;
    plan_moves(counts);
    plan.allocate(counts);

    for (std::size_t i = 0; i < items_.size(); ++i)
        if (static_cast<std::size_t>(items_[i].count) != i) take_new_references(i);
    std::size_t updates = 0;
    const Reporter report{plan.updates(), updates};
    for (std::size_t i = 0; i < items_.size(); ++i) {
        if (static_cast<std::size_t>(items_[i].count) != i) become(i, report);
        else report_rest(items_[i].row, report);
        plan.rows()[i] = items_[i].row;
        plan.lengths()[i] = at(items_[i].row).table.tokens();
    }
    finish_plan(plan);
}

}  // namespace pagedkv
