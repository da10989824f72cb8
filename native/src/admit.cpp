#include <algorithm>

#include "pagedkv/errors.hpp"
#include "pagedkv/sequence_store.hpp"

namespace pagedkv {

void SequenceStore::admit(SeqId id, std::int64_t prompt, std::optional<std::int64_t> reserve, Admission& out) {
    refuse_live(id);
    const std::int64_t reserved = reserve.value_or(prompt);
    if (reserved < 0) throw InvalidArgument(join("reserve is ", reserved, "; give the tokens to make room for, or None"));
    const std::int64_t target = std::max(prompt, reserved);
    if (target > 0) {
        Sequence asked;
        asked.id = id;
        check_target(asked, target);
        const std::int64_t most = math_.blocks(target);
        if (most + options_.watermark > blocks_.total())
            throw NeverFits(
                join("sequence ", id, " needs ", most, " blocks for ", target, " tokens, the pool has ", blocks_.total(),
                     " less a watermark of ", options_.watermark, "; reject it, or use a larger pool"),
                most, blocks_.total());
    }
    // The watermark keeps room for running sequences to grow; a sequence that takes nothing cannot hurt them.
    const std::int64_t needed = math_.blocks(reserved);
    if (needed > 0 && needed + options_.watermark > blocks_.available()) {
        try {
            out_of_blocks(needed, options_.watermark > 0 ? "admission (besides the watermark)" : "admission");
        } catch (const OutOfBlocks&) {
            ++failed_admissions_;  // only now: composing the message can fail too
            throw;
        }
    }
    make_room_for_sequences(1);
    const Row row = rows_.lowest_free();
    at(row).table.make_room(needed);

    rows_.take();
    map_.insert(id, row);
    Sequence& s = at(row);
    s.id = id;
    s.committed = 0;
    s.known = static_cast<std::int32_t>(prompt);
    s.emitted = 0;
    s.group = ForkGroups::kNone;
    s.live = true;
    for (std::int64_t i = 0; i < needed; ++i) s.table.push(blocks_.take());
    logical_blocks_ += needed;
    blocks_.note_peak();
    out = Admission{id, row, 0};
}

}  // namespace pagedkv
