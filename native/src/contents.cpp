// The store's side of prefix reuse: who a prompt is, which blocks it finds, what a sequence publishes.
#include <algorithm>

#include "pagedkv/errors.hpp"
#include "pagedkv/sequence_store.hpp"

namespace pagedkv {

namespace {
void add_number(std::string& key, std::int64_t number) { key.append(reinterpret_cast<const char*>(&number), sizeof number); }
}  // namespace

void SequenceStore::check_covers(const Prompt& prompt) const {
    std::int64_t end = 0;
    for (const Cover& c : prompt.covers) {
        if (c.start < end || c.stop <= c.start || c.stop > prompt.count)
            throw InvalidArgument(join("a span covers tokens ", c.start, " to ", c.stop, " of ", prompt.count,
                                       "; give spans in ascending order that do not overlap, each within the tokens"));
        end = c.stop;
    }
}

// One key a covered block: which of its tokens are covered, by which digest, from which place in it on. A span [s, e)
// belongs to the block of tokens [a, b) if and only if s < b and e > a.
std::vector<std::pair<std::int32_t, std::string>> SequenceStore::cover_keys(const Prompt& prompt) const {
    std::vector<std::pair<std::int32_t, std::string>> keys;
    for (const Cover& c : prompt.covers) {
        for (std::int64_t j = math_.index(c.start); j <= math_.index(c.stop - 1); ++j) {
            const std::int64_t from = std::max(c.start, math_.start(j));
            if (keys.empty() || keys.back().first != j) keys.emplace_back(static_cast<std::int32_t>(j), std::string());
            std::string& key = keys.back().second;
            add_number(key, from - math_.start(j));
            add_number(key, std::min(c.stop, math_.start(j + 1)) - math_.start(j));
            add_number(key, from - c.start);
            add_number(key, static_cast<std::int64_t>(c.digest.size()));
            key += c.digest;
        }
    }
    return keys;
}

// The number of a salt and of each covered block's digests, for a sequence that is to hold them.
void SequenceStore::identify(const Prompt& prompt, Content& content) {
    const auto keys = cover_keys(prompt);
    content.extras.reserve(keys.size());
    try {
        content.salt = index_->salts().intern(prompt.salt);
        for (const auto& [column, key] : keys) content.extras.push_back(Extra{column, index_->digests().intern(key)});
    } catch (...) {
        forget(content);
        throw;
    }
}

void SequenceStore::hold(const Content& content) {
    index_->salts().hold(content.salt);
    for (const Extra& e : content.extras) index_->digests().hold(e.number);
}

// A content that is no sequence's any more.
void SequenceStore::forget(Content& content) {
    if (content.salt != Interner::kUnknown) index_->salts().release(content.salt);
    for (const Extra& e : content.extras) index_->digests().release(e.number);
    content.extras.clear();
    content.ids.clear();
    if (content.ids.capacity() > 4096) std::vector<std::int32_t>().swap(content.ids);
    content.salt = Interner::kUnknown;
    content.published = content.first = 0;
    content.stop = Content{}.stop;
}

// At least one token is left to compute, unless the caller says how many may come from the cache.
std::int64_t SequenceStore::most_hit_blocks(const Prompt& prompt, std::optional<std::int64_t> max_hit_tokens) const {
    const std::int64_t most = std::min(prompt.count, max_hit_tokens.value_or(prompt.count - 1));
    return most > 0 ? math_.index(most) : 0;
}

std::int64_t SequenceStore::find_prefix(const Prompt& prompt, const Content& who, std::int64_t most) {
    if (static_cast<std::int64_t>(matched_.size()) < most) matched_.resize(static_cast<std::size_t>(most));
    return index_->match(PrefixKey{who.salt, prompt.tokens, who.extras}, most, matched_.data());
}

std::int64_t SequenceStore::lookup(const Prompt& prompt, std::optional<std::int64_t> max_hit_tokens) {
    check_covers(prompt);
    if (!index_) return 0;
    Content who;
    who.salt = index_->salts().find(prompt.salt);
    for (const auto& [column, key] : cover_keys(prompt)) who.extras.push_back(Extra{column, index_->digests().find(key)});
    return math_.start(find_prefix(prompt, who, most_hit_blocks(prompt, max_hit_tokens)));
}

void SequenceStore::make_room_for_ids(Row row, std::int64_t count) {
    std::vector<std::int32_t>& ids = content(row).ids;
    const std::size_t wanted = ids.size() + static_cast<std::size_t>(count);
    if (wanted > ids.capacity()) ids.reserve(std::max(wanted, 2 * ids.capacity()));
}

// Every full, committed block whose ids are known, from the first that is not done yet on.
void SequenceStore::publish(Row row) {
    const Sequence& s = at(row);
    Content& c = content(row);
    const std::int64_t full = std::min<std::int64_t>(math_.index(std::min(s.committed, s.known)), c.stop);
    if (c.published >= full) return;
    for (; c.published < full; ++c.published) {
        const BlockId b = s.table[c.published];
        if (blocks_.published(b)) continue;  // a fork did it
        const BlockId parent = c.published > 0 ? s.table[c.published - 1] : -1;
        if (parent >= 0 && !blocks_.published(parent)) break;  // withdrawn by hand: nobody could reach what is below
        const std::int64_t offset = math_.start(c.published) - c.first;
        index_->publish(parent, c.salt, b, c.ids.data() + offset, c.extra(c.published));
    }
    // Published ids lie in the index; the rest moves to the front before it is outweighed.
    const std::int64_t done = math_.start(c.published) - c.first;
    if (2 * done < static_cast<std::int64_t>(c.ids.size())) return;
    c.ids.erase(c.ids.begin(), c.ids.begin() + static_cast<std::ptrdiff_t>(done));
    c.first += static_cast<std::int32_t>(done);
}

// The ids of tokens beyond `length` are void. Those of the block that it cuts come back from the index: that block is
// still the sequence's, and its content stays until the sequence writes over it.
void SequenceStore::cut_content(Row row, std::int64_t length) {
    const Sequence& s = at(row);
    Content& c = content(row);
    const auto column = static_cast<std::int32_t>(math_.index(length));
    if (length >= c.first) {
        c.ids.resize(
            static_cast<std::size_t>(std::min<std::int64_t>(length - c.first, static_cast<std::int64_t>(c.ids.size()))));
    } else {
        c.first = static_cast<std::int32_t>(math_.start(column));
        c.ids.clear();
        if (length > c.first) {
            const std::int32_t* kept = index_->tokens_of(s.table[column]);
            c.ids.insert(c.ids.end(), kept, kept + (length - c.first));
        }
    }
    c.published = std::min(c.published, column);
    while (!c.extras.empty() && c.extras.back().column >= column) {
        if (c.extras.back().column == column && length > math_.start(column)) c.stop = std::min(c.stop, column);
        index_->digests().release(c.extras.back().number);
        c.extras.pop_back();
    }
}

bool SequenceStore::reset_prefix_cache() {
    if (map_.size() > 0) return false;
    if (index_) index_->clear();
    return true;
}

EventBatch SequenceStore::drain_events() {
    if (!index_) return {};
    return events_.drain([this] { index_->report_all(); });
}

}  // namespace pagedkv
