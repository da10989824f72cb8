// Giving blocks back: free (at once or when a step retires), the tail that truncate drops, retire.
#include <algorithm>

#include "pagedkv/errors.hpp"
#include "pagedkv/sequence_store.hpp"

namespace pagedkv {

namespace {
// Blocks ahead of the one in work: enough to hide a cache miss on scattered ids.
constexpr std::int64_t kAhead = 16;
}  // namespace

// Drops the table's entries from `keep` on, deepest first: it is evicted first, and the head is handed out first.
void SequenceStore::release_tail(Sequence& s, std::int64_t keep, Step after) {
    const std::int64_t size = s.table.size();
    for (std::int64_t i = size - 1; i >= keep; --i) {
        if (i - kAhead >= keep) blocks_.prefetch(s.table[i - kAhead]);
        blocks_.release(s.table[i], after);
        s.table.pop();
    }
    logical_blocks_ -= std::max<std::int64_t>(0, size - keep);
    s.emitted = std::min(s.emitted, static_cast<std::int32_t>(s.table.size()));
    groups_.shrink(s.group, s.table.size());
}

// All entries of a sequence that ends. Members of a fork group that end in one batch drop what they have in common once,
// with the last of them: only then could a block of it become free.
void SequenceStore::release_all(Sequence& s, Step after) {
    const std::int64_t common = groups_.common(s.group);
    const std::span<const BlockId> entries = s.table.entries();
    const auto release = [&](std::int64_t from, std::int64_t to, std::int32_t holders) {
        for (std::int64_t i = from - 1; i >= to; --i) {
            if (i - kAhead >= to) blocks_.prefetch(entries[static_cast<std::size_t>(i - kAhead)]);
            blocks_.release(entries[static_cast<std::size_t>(i)], after, holders);
        }
    };
    release(s.table.size(), common, 1);
    if (s.group != ForkGroups::kNone && groups_.last_to_leave(s.group)) release(common, 0, 1 + groups_.take_held_back(s.group));
    groups_.leave(s.group);
    s.group = ForkGroups::kNone;
    logical_blocks_ -= s.table.size();
}

void SequenceStore::free(Ids ids, std::optional<Step> after) {
    if (after && (*after < 0 || *after > last_step_))
        throw InvalidArgument(join("free after step ", *after, ", the last step planned is ", last_step_,
                                   "; pass the step of the plan that still uses the blocks"));
    resolve(ids);
    for (const Item& item : items_) groups_.announce_leaving(at(item.row).group);
    for (const Item& item : items_) {
        Sequence& s = at(item.row);
        release_all(s, after.value_or(0));
        set_length(s, 0);
        s.table.clear();
        if (index_) forget(content(item.row));
        s.live = false;
        map_.erase(s.id);
        rows_.release(item.row);
    }
}

void SequenceStore::retire(Step step) {
    if (step < 0 || step > last_step_)
        throw InvalidArgument(join("retire of step ", step, ", the last step planned is ", last_step_,
                                   "; only a planned step can have finished"));
    if (step <= retired_step_) return;
    retired_step_ = step;
    blocks_.retire(step);
}

}  // namespace pagedkv
