#include <algorithm>

#include "program.hpp"

using pagedkv::SequenceStore;

// What was written there, or what is about to be.
std::int32_t Program::late_id(const ModelSequence& s, std::int64_t p) const {
    return p < s.length ? model_.token_ids[static_cast<std::size_t>(s.tokens[static_cast<std::size_t>(p)])] : model_.new_id(p);
}

void Program::commit() {
    Ids ids = in_.ids(), lengths = in_.amounts(ids.size());
    const std::uint8_t with_ids = in_.byte();
    if (options_.prefix_caching && with_ids % 8 != 7) {  // mostly something that can be committed
        ids = mostly_live(ids);
        lengths.resize(ids.size());
        for (std::size_t i = 0; i < ids.size(); ++i)
            if (model_.live.contains(ids[i])) lengths[i] = std::clamp<std::int64_t>(lengths[i], 0, at(ids[i]).length);
    }
    commit(ids, lengths, with_ids % 3 == 2 || with_ids >= 250, with_ids >= 250 ? 1 : 0);
}

void Program::commit(const Ids& ids, const Ids& lengths, bool tokens, std::int64_t too_many) {
    Expectation expected = for_batch(ids);
    std::int64_t late = 0;
    for (std::size_t i = 0; i < ids.size(); ++i) {
        const auto found = model_.live.find(ids[i]);
        if (lengths[i] < 0) expected.invalid = true;
        if (found == model_.live.end()) continue;
        const ModelSequence& s = found->second;
        if (lengths[i] < 0 || lengths[i] > model_.capacity(s)) {
            expected.invalid = true;
            continue;
        }
        if (lengths[i] > s.length && options_.max_tokens && lengths[i] > *options_.max_tokens) expected.invalid = true;
        if (lengths[i] > s.length && model_.shared_between(s, s.length, lengths[i])) expected.state = true;
        late += std::max<std::int64_t>(0, lengths[i] - s.known());
    }
    late += too_many;
    if (too_many > 0) expected.invalid = true;
    std::vector<std::int32_t> given;
    for (std::size_t i = 0; tokens && !expected.refused() && i < ids.size(); ++i)
        for (std::int64_t p = at(ids[i]).known(); p < lengths[i]; ++p) given.push_back(late_id(at(ids[i]), p));
    const SequenceStore::TokenIds ids_of_call{late, given.data()};
    if (!run(expected, [&] { store_.commit(ids, lengths, tokens ? std::optional(ids_of_call) : std::nullopt); })) return;
    for (std::size_t i = 0; i < ids.size(); ++i) {
        ModelSequence& s = at(ids[i]);
        for (std::int64_t p = s.known(); tokens && p < lengths[i]; ++p) s.ids.push_back(late_id(s, p));
        for (std::int64_t k = s.length / model_.size; lengths[i] > s.length && k < model_.blocks_for(lengths[i]); ++k)
            model_.write_over(s, k);
        if (lengths[i] > s.length) {
            model_.write(s, s.length, lengths[i]);
            s.length = lengths[i];
        }
        s.committed = std::max(s.committed, lengths[i]);
        model_.publish_columns(s);
    }
}

void Program::truncate() {
    Ids ids = in_.ids();
    Ids lengths = in_.amounts(ids.size());
    const std::uint8_t how = in_.byte();
    const bool keep_blocks = how % 2 == 1;
    if (how % 4 >= 2) {  // a batch that can be cut
        ids = mostly_live(ids);
        for (std::size_t i = 0; i < ids.size(); ++i)
            if (model_.live.contains(ids[i])) lengths[i] = std::max<std::int64_t>(0, lengths[i]) % (at(ids[i]).length + 1);
        lengths.resize(ids.size());
    }
    Expectation expected = for_batch(ids);
    for (std::size_t i = 0; i < ids.size(); ++i) {
        const auto found = model_.live.find(ids[i]);
        if (lengths[i] < 0 || (found != model_.live.end() && lengths[i] > found->second.length)) expected.invalid = true;
    }
    if (!run(expected, [&] { store_.truncate(ids, lengths, keep_blocks); })) return;
    for (std::size_t i = 0; i < ids.size(); ++i) {
        ModelSequence& s = at(ids[i]);
        model_.cut_content(s, lengths[i]);
        if (!keep_blocks) model_.drop_blocks(s, model_.blocks_for(lengths[i]), 0);
        model_.cut_fill(s, lengths[i]);
        s.length = lengths[i];
        s.committed = std::min(s.committed, lengths[i]);
    }
}

void Program::free() {
    const Ids ids = in_.ids();
    const std::uint8_t when = in_.byte();
    const auto after =
        when % 2 == 0 ? std::nullopt : std::optional(when == 255 ? in_.amount() : model_.last_step - when % 8 / 2);
    free(ids, after);
}

void Program::free(const Ids& ids, std::optional<pagedkv::Step> after) {
    Expectation expected = for_batch(ids);
    if (after && (*after < 0 || *after > model_.last_step)) expected.invalid = true;
    if (!run(expected, [&] { store_.free(ids, after); })) return;
    for (const std::int64_t id : ids) model_.end(id, after.value_or(0));
}

void Program::retire() {
    const std::uint8_t behind = in_.byte();
    const pagedkv::Step step = behind == 255 ? in_.amount() : model_.last_step - behind % 8;
    Expectation expected;
    expected.invalid = step < 0 || step > model_.last_step;
    if (run(expected, [&] { store_.retire(step); })) model_.retire(step);
}
