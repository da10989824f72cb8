// Giving blocks back: free (at once or when a step retires), the tail that truncate drops, retire.
#include <algorithm>

#include "pagedkv/errors.hpp"
#include "pagedkv/sequence_store.hpp"

namespace pagedkv {

namespace {
// Blocks ahead of the one in work: enough to hide a cache miss on scattered ids.
constexpr std::int64_t kAhead = 16;
}  // namespace

// Gives back the table's entries from .. to - 1, deepest first: it is evicted first, and the head is handed out first.
void SequenceStore::release_entries(const Sequence& s, std::int64_t from, std::int64_t to, Step after, std::int32_t holders) {
    for (std::int64_t i = to - 1; i >= from; --i) {
        if (i - kAhead >= from) blocks_.prefetch(s.table[i - kAhead]);
        blocks_.release(s.table[i], after, holders);
    }
}

void SequenceStore::release_tail(Sequence& s, std::int64_t keep, Step after) {
    const std::int64_t size = s.table.size();
    if (keep >= size) return;
    release_entries(s, keep, size, after, 1);
    s.table.replace_from(keep, {});
    logical_blocks_ -= size - keep;
    s.emitted = std::min(s.emitted, static_cast<std::int32_t>(keep));
    groups_.shrink(s.group, keep);
}

// All entries of a sequence that ends. Members of a fork group that end in one batch drop what they have in common once,
// with the last of them: only then could a block of it become free.
void SequenceStore::release_all(Sequence& s, Step after) {
    const std::int64_t common = groups_.common(s.group);
    release_entries(s, common, s.table.size(), after, 1);
    if (s.group != ForkGroups::kNone && groups_.last_to_leave(s.group))
        release_entries(s, 0, common, after, 1 + groups_.take_held_back(s.group));
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
