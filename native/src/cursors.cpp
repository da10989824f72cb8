// The three cursors of a sequence, committed <= length <= capacity: commit and truncate.
#include <algorithm>

#include "pagedkv/errors.hpp"
#include "pagedkv/sequence_store.hpp"

namespace pagedkv {

void SequenceStore::commit(Ids ids, Ids lengths, const std::optional<TokenIds>& tokens) {
    resolve(ids, lengths, "lengths");
    std::int64_t late = 0;
    for (const Item& item : items_) {
        const Sequence& s = at(item.row);
        if (item.count > capacity(s))
            throw InvalidArgument(join("commit of ", item.count, " tokens of sequence ", s.id, ", which has room for ",
                                       capacity(s), "; reserve or append before the tokens are written"));
        if (item.count > s.table.tokens()) {
            check_target(s, item.count);
            for (std::int64_t i = math_.index(s.table.tokens()); i < math_.blocks(item.count); ++i)
                if (!blocks_.writable_in_place(s.table[i], own_tokens(s, i)))
                    throw SequenceState(
                        join("commit would raise sequence ", s.id, " to ", item.count, " tokens, but block ", s.table[i],
                             " under them is shared, or still in use for an ended one; reserve first, so that it is copied"));
        }
        late += std::max<std::int64_t>(0, item.count - s.known);
    }
    if (tokens && tokens->count != late)
        throw InvalidArgument(join(tokens->count, " late token ids given, ", late,
                                   " missing between the known ids and the committed lengths; give exactly those"));
    if (tokens && index_)
        for (const Item& item : items_) make_room_for_ids(item.row, std::max<std::int64_t>(0, item.count - at(item.row).known));

    const std::int32_t* next_id = tokens ? tokens->ids : nullptr;
    for (const Item& item : items_) {
        Sequence& s = at(item.row);
        const auto length = static_cast<std::int32_t>(item.count);
        if (length > s.table.tokens()) {
            for (std::int64_t i = math_.index(s.table.tokens()); i < math_.blocks(length); ++i)
                blocks_.unpublish_for_write(s.table[i], own_tokens(s, i));
            fill_range(s, s.table.tokens(), length);
            set_length(s, length);
        }
        s.committed = std::max(s.committed, length);
        if (tokens && length > s.known) {
            add_ids(item.row, next_id, length - s.known);
            s.known = length;
        }
        if (index_) publish(item.row);
    }
}

void SequenceStore::truncate(Ids ids, Ids lengths, bool keep_blocks) {
    resolve(ids, lengths, "lengths");
    for (const Item& item : items_)
        if (item.count > item.from)
            throw InvalidArgument(join("truncate of sequence ", at(item.row).id, " to ", item.count, " tokens, it has ",
                                       item.from, "; truncate cannot lengthen, use append"));
    if (index_)
        for (const Item& item : items_) content(item.row).ids.reserve(static_cast<std::size_t>(math_.size()));
    for (const Item& item : items_) {
        Sequence& s = at(item.row);
        const std::int64_t length = item.count;
        if (index_ && length < item.from) cut_content(item.row, length);
        if (!keep_blocks) release_tail(s, math_.blocks(length), 0);
        // A published block keeps its tokens: they stay findable until somebody writes over them.
        const std::int64_t end = std::min(s.table.size(), math_.blocks(item.from));
        for (std::int64_t i = math_.index(length); i < end; ++i)
            if (blocks_.refs(s.table[i]) == 1 && !blocks_.published(s.table[i]) && !blocks_.busy(s.table[i]))
                blocks_.lower_fill(s.table[i], static_cast<std::int32_t>(std::max<std::int64_t>(0, length - math_.start(i))));
        set_length(s, length);
        s.committed = std::min(s.committed, static_cast<std::int32_t>(length));
        // Prompt ids beyond the length stay known while nothing is cut off: a no-op in the middle of a chunked prefill.
        if (length < item.from) s.known = std::min(s.known, static_cast<std::int32_t>(length));
    }
}

}  // namespace pagedkv
