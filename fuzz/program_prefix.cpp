#include <algorithm>

#include "program.hpp"

using pagedkv::BlockId;
using pagedkv::BlockState;
using pagedkv::Cover;
using pagedkv::Prompt;

// A prompt as a sequence that has nothing yet. One that no pool holds has a length and nothing else.
ModelSequence Program::prompt(std::int64_t& count, std::vector<Cover>& covers) {
    ModelSequence s;
    count = std::max<std::int64_t>(0, in_.amount());
    if (count > 1000) return s;
    for (std::int64_t p = 0; p < count; ++p) s.ids.push_back(model_.new_id(p));
    if (!options_.prefix_caching) return s;
    const std::uint8_t kind = in_.byte();
    s.salt = kind % 8 == 1 ? "tenant" : "";
    for (int n = kind / 32; n > 5; --n) {
        const std::int64_t start = in_.amount();
        covers.push_back({start, std::clamp(start, -kFar, kFar) + in_.below(8), in_.flag() ? "cat" : "dog"});
    }
    return s;
}

void Program::check_covers(Expectation& expected, const std::vector<Cover>& covers, std::int64_t count) const {
    std::int64_t end = 0;
    for (const Cover& c : covers) {
        if (c.start < end || c.stop <= c.start || c.stop > count) expected.invalid = true;
        end = c.stop;
    }
}

Program::Tokens Program::most_hit_tokens() {
    if (!options_.prefix_caching || in_.below(4) != 3) return std::nullopt;
    return in_.amount();
}

void Program::admit() {
    const Ids ids = in_.ids();
    if (ids.empty()) return;
    std::vector<Cover> covers;
    std::int64_t count = 0;
    const ModelSequence s = prompt(count, covers);
    const auto reserved = in_.flag() ? std::optional(in_.amount()) : std::nullopt;
    const auto most = most_hit_tokens();
    admit(ids[0], count, s, covers, reserved, most);
}

void Program::admit(std::int64_t id, std::int64_t count, ModelSequence s, const std::vector<Cover>& covers, Tokens reserved,
                    Tokens most) {
    const std::int64_t room = reserved.value_or(count), target = std::max(count, room);

    Expectation expected = for_batch({});
    expected.state = model_.live.contains(id);
    expected.invalid = room < 0;
    check_covers(expected, covers, count);
    may_hold(expected, target);
    if (target > 0 && target < kFar && model_.blocks_for(target) + options_.watermark > model_.total) expected.never = true;
    std::vector<BlockId> hits;
    if (!expected.refused()) {
        s.covers = model_.cover_columns(covers);
        hits = model_.find_prefix(s, most);
        expected.needed = std::max<std::int64_t>(0, model_.blocks_for(room) - static_cast<std::int64_t>(hits.size()));
        expected.revived =
            std::count_if(hits.begin(), hits.end(), [&](BlockId b) { return model_.state(b) == BlockState::cached; });
    }
    expected.watermark = options_.watermark;
    s.row = model_.lowest_free_row();
    pagedkv::Admission admission;
    const Prompt asked{count, s.ids, s.salt, covers};
    if (!run(expected, [&] { store_.admit(id, asked, {reserved, most}, admission); })) {
        if (!expected.refused()) ++model_.failed_admissions;
        return;
    }
    demand(admission.seq_id == id && admission.row == s.row, "not the lowest free row");
    model_.take_hits(s, hits);
    demand(admission.cached_tokens == s.length, "tokens from the cache");
    ModelSequence& placed = model_.live[id] = s;
    ExpectedPlan later;  // the first plan that names the sequence
    model_.grow(placed, store_.sequence(id).table.entries(), std::max(room, placed.length), later);
    if (!options_.prefix_caching) return;
    model_.queried += count;
    model_.hit += placed.length;
}

// A request from its first step to its last, or nearly, so that something can be found.
void Program::serve() {
    Ids ids = in_.ids();
    std::erase_if(ids, [&](std::int64_t id) { return model_.live.contains(id); });
    if (ids.empty()) return;
    std::vector<Cover> covers;
    std::int64_t count = 0;
    const ModelSequence s = prompt(count, covers);
    admit(ids[0], count, s, covers, std::nullopt, most_hit_tokens());
    model_.check_all();
    if (!model_.live.contains(ids[0])) return;
    const std::int64_t more = in_.below(4);
    append({ids[0]}, {count - at(ids[0]).length}, Fit::whole, false, 0);
    append({ids[0]}, {more}, Fit::whole, true, 0);
    model_.check_all();
    commit({ids[0]}, {at(ids[0]).length - in_.below(2) * std::min<std::int64_t>(1, at(ids[0]).length)}, false, 0);
    const std::uint8_t end = in_.byte();
    if (end % 4 > 0) free({ids[0]}, end % 4 > 1 ? std::nullopt : std::optional(model_.last_step - end % 16 / 8));
}

void Program::lookup() {
    std::vector<Cover> covers;
    std::int64_t count = 0;
    ModelSequence s = prompt(count, covers);
    const auto most = most_hit_tokens();
    Expectation expected;
    check_covers(expected, covers, s.known());
    std::int64_t found = 0;
    const Prompt asked{s.known(), s.ids, s.salt, covers};
    if (!run(expected, [&] { found = store_.lookup(asked, most); })) return;
    s.covers = model_.cover_columns(covers);
    demand(found == static_cast<std::int64_t>(model_.find_prefix(s, most).size()) * model_.size, "tokens that a look-up finds");
}

void Program::drain() {
    model_.picture.apply(store_.drain_events());
    model_.picture.check(model_.contents);
}

void Program::reset() {
    const bool done = store_.reset_prefix_cache();
    demand(done == model_.forget_contents(), "the cache is forgotten exactly when no sequence lives");
}
