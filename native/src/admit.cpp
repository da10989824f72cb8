// Admission: match, reference, reserve; all or nothing.
#include <algorithm>

#include "pagedkv/errors.hpp"
#include "pagedkv/sequence_store.hpp"

namespace pagedkv {

namespace {
// Gives back what a content holds unless the admission succeeds.
template <class Forget>
class Held {
public:
    Held(Content& content, Forget forget) : content_(&content), forget_(forget) {}
    ~Held() {
        if (content_ != nullptr) forget_(*content_);
    }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    Content keep() { return std::move(*std::exchange(content_, nullptr)); }

private:
    Content* content_;
    Forget forget_;
};
}  // namespace

// Whether an idle pool could hold it, besides the watermark.
void SequenceStore::check_fits(SeqId id, std::int64_t target) const {
    if (target == 0) return;
    Sequence asked;
    asked.id = id;
    check_target(asked, target);
    const std::int64_t most = math_.blocks(target);
    if (most + options_.watermark > blocks_.total())
        throw NeverFits(join("sequence ", id, " needs ", most, " blocks for ", target, " tokens, the pool has ",
                             blocks_.total(), " less a watermark of ", options_.watermark, "; reject it, or use a larger pool"),
                        most, blocks_.total());
}

// Blocks to take besides the `hits` matched ones; throws if there are too few, matched ones not counted as free.
std::int64_t SequenceStore::blocks_to_admit(std::int64_t hits, std::int64_t wanted) {
    const std::int64_t needed = std::max<std::int64_t>(0, wanted - hits);
    const std::int64_t revived = blocks_.count_cached({matched_.data(), static_cast<std::size_t>(hits)});
    const std::int64_t available = blocks_.available() - revived;
    // The watermark keeps room for running sequences to grow; a sequence that takes nothing cannot hurt them.
    if (needed + revived == 0 || needed + options_.watermark <= available) return needed;
    try {
        out_of_blocks(needed, available, options_.watermark > 0 ? "admission (besides the watermark)" : "admission");
    } catch (const OutOfBlocks&) {
        ++failed_admissions_;  // only now: composing the message can fail too
        throw;
    }
}

void SequenceStore::admit(SeqId id, const Prompt& prompt, const Admit& how, Admission& out) {
    refuse_live(id);
    const std::int64_t reserved = how.reserve.value_or(prompt.count);
    if (reserved < 0) throw InvalidArgument(join("reserve is ", reserved, "; give the tokens to make room for, or None"));
    check_covers(prompt);
    check_fits(id, std::max(prompt.count, reserved));

    Content who;
    const auto forget_it = [this](Content& content) { forget(content); };
    Held held(who, forget_it);
    std::int64_t hits = 0;
    if (index_) {
        identify(prompt, who);
        hits = find_prefix(prompt, who, most_hit_blocks(prompt, how.max_hit_tokens));
    }
    const std::int64_t cached = math_.start(hits);
    const std::int64_t needed = blocks_to_admit(hits, math_.blocks(reserved));
    if (index_) who.ids.assign(prompt.tokens.begin() + static_cast<std::ptrdiff_t>(cached), prompt.tokens.end());
    make_room_for_sequences(1);
    const Row row = rows_.lowest_free();
    at(row).table.make_room(hits + needed);

    rows_.take();
    map_.insert(id, row);
    Sequence& s = at(row);
    s.id = id;
    s.known = static_cast<std::int32_t>(prompt.count);
    s.emitted = 0;
    s.live = true;
    // Matched blocks first: what is taken afterwards may evict, and must not evict them.
    const std::span<const BlockId> matched(matched_.data(), static_cast<std::size_t>(hits));
    blocks_.acquire(matched);
    s.table.replace_from(0, matched);
    for (std::int64_t i = 0; i < needed; ++i) s.table.push(blocks_.take());
    logical_blocks_ += hits + needed;
    set_length(s, cached);
    s.committed = static_cast<std::int32_t>(cached);
    if (index_) {
        who.first = s.committed;
        who.published = static_cast<std::int32_t>(hits);
        content(row) = held.keep();
        queried_tokens_ += prompt.count;
        hit_tokens_ += cached;
    }
    blocks_.note_peak();
    out = Admission{id, row, cached};
}

}  // namespace pagedkv
