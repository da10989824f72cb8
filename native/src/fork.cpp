// Sharing: fork, and the groups that make a beam step independent of the prompt's length.
#include <algorithm>

#include "pagedkv/errors.hpp"
#include "pagedkv/sequence_store.hpp"

namespace pagedkv {

void SequenceStore::refuse_live(SeqId id) const {
    if (map_.find(id) >= 0)
        throw SequenceState(join("sequence ", id, " is already registered; free it first, or use another id"));
}

// Ids that are to become sequences: none of them live, none named twice.
void SequenceStore::check_new(Ids ids) {
    for (const SeqId id : ids) refuse_live(id);
    names_.assign(ids.begin(), ids.end());
    std::sort(names_.begin(), names_.end());
    const auto twice = std::adjacent_find(names_.begin(), names_.end());
    if (twice != names_.end())
        throw InvalidArgument(join("sequence ", *twice, " is named twice in one batch; name each sequence once"));
}

// Rows, map entries and sequences for `more` new ones. May throw; changes nothing visible.
void SequenceStore::make_room_for_sequences(std::size_t more) {
    const std::size_t all = map_.size() + more;
    if (all > static_cast<std::size_t>(kMostHolders))
        throw InvalidArgument(join(all, " sequences at once; ", kMostHolders, " is the most, free some first"));
    rows_.make_room(all);
    map_.insert_room(more);
    if (sequences_.size() < all) sequences_.resize(std::max(all, std::min(2 * sequences_.size(), all + 1024)));
    if (index_ && contents_.size() < sequences_.size()) contents_.resize(sequences_.size());
}

// The group in which s and copies of its first `entries` entries are; needs room for one more group.
std::int32_t SequenceStore::group_for_copies(Sequence& s, std::int64_t entries) {
    if (s.group == ForkGroups::kNone) s.group = groups_.open(entries);
    else if (groups_.members(s.group) == 1) groups_.set_common(s.group, entries);
    return s.group;
}

// Blocks that hold tokens are shared; what is only reserved stays the parent's own, since nothing would be saved.
void SequenceStore::fork(SeqId parent_id, Ids children) {
    const Row parent_row = map_.find(parent_id);
    if (parent_row < 0) unknown(parent_id);
    check_new(children);
    if (children.empty()) return;
    make_room_for_sequences(children.size());
    groups_.make_room(1);
    const std::int64_t shared = math_.blocks(at(parent_row).table.tokens());
    items_.clear();
    items_.reserve(children.size());
    try {
        for (std::size_t i = 0; i < children.size(); ++i) {
            items_.push_back(Item{rows_.take(), 0, 0, -1});
            at(items_.back().row).table.make_room_to_grow(shared);
            // Not held yet, so a copy for a fork that fails after all needs no undoing beyond being emptied.
            if (index_) content(items_.back().row) = content(parent_row);
        }
    } catch (...) {
        for (const Item& item : items_) {
            rows_.release(item.row);
            if (index_) content(item.row) = Content{};
        }
        throw;
    }

    Sequence& parent = at(parent_row);
    const std::int32_t group = group_for_copies(parent, shared);
    groups_.shrink(group, shared);
    const std::span<const BlockId> entries = parent.table.entries().first(static_cast<std::size_t>(shared));
    for (const BlockId b : entries) blocks_.share(b, static_cast<std::int32_t>(children.size()));
    for (std::size_t i = 0; i < children.size(); ++i) {
        Sequence& child = at(items_[i].row);
        map_.insert(children[i], items_[i].row);
        child.id = children[i];
        child.table.replace_from(0, entries);
        child.table.set_tokens(parent.table.tokens());
        child.committed = parent.committed;
        child.known = parent.known;
        child.emitted = 0;
        child.group = group;
        child.live = true;
        groups_.join(group);
        if (index_) hold(content(items_[i].row));
    }
    const auto count = static_cast<std::int64_t>(children.size());
    logical_blocks_ += count * shared;
    logical_tokens_ += count * parent.table.tokens();
}

}  // namespace pagedkv
