#include <algorithm>

#include "program.hpp"

void Program::commit() {
    const Ids ids = in_.ids(), lengths = in_.amounts(ids.size());
    const std::uint8_t with_ids = in_.byte();
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
        late += std::max<std::int64_t>(0, lengths[i] - s.known);
    }
    auto tokens = with_ids % 3 == 2 ? std::optional(late) : std::nullopt;
    if (with_ids >= 250) {
        tokens = late + 1;
        expected.invalid = true;
    }
    if (!run(expected, [&] { store_.commit(ids, lengths, tokens); })) return;
    for (std::size_t i = 0; i < ids.size(); ++i) {
        ModelSequence& s = at(ids[i]);
        if (lengths[i] > s.length) {
            model_.write(s, s.length, lengths[i]);
            s.length = lengths[i];
        }
        s.committed = std::max(s.committed, lengths[i]);
        if (tokens) s.known = std::max(s.known, lengths[i]);
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
        if (!keep_blocks) model_.drop_blocks(s, model_.blocks_for(lengths[i]), 0);
        if (lengths[i] < s.length) s.known = std::min(s.known, lengths[i]);
        s.length = lengths[i];
        s.committed = std::min(s.committed, lengths[i]);
    }
}

void Program::free() {
    const Ids ids = in_.ids();
    const std::uint8_t when = in_.byte();
    const auto after =
        when % 2 == 0 ? std::nullopt : std::optional(when == 255 ? in_.amount() : model_.last_step - when % 8 / 2);
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
    if (run(expected, [&] { store_.retire(step); })) model_.retired = std::max(model_.retired, step);
}
