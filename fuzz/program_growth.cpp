#include <algorithm>

#include "program.hpp"

using pagedkv::SequenceStore;
using pagedkv::StepPlan;

Expectation Program::for_batch(const Ids& ids) const {
    Expectation expected;
    expected.available = model_.available();
    expected.pending = static_cast<std::int64_t>(model_.lists.pending.size());
    for (std::size_t i = 0; i < ids.size(); ++i) {
        if (!model_.live.contains(ids[i])) expected.state = true;
        if (std::count(ids.begin(), ids.end(), ids[i]) > 1) expected.invalid = true;
    }
    return expected;
}

void Program::may_hold(Expectation& expected, std::int64_t tokens) const {
    if (tokens <= 0) return;
    if (options_.max_tokens && tokens > *options_.max_tokens) expected.invalid = true;
    if (tokens > kFar || model_.blocks_for(tokens) > model_.total) expected.never = true;
}

std::vector<std::int64_t> Program::sums(const Ids& ids, const Ids& counts) const {
    Ids upto;
    for (std::size_t i = 0; i < ids.size(); ++i) {
        const auto found = model_.live.find(ids[i]);
        upto.push_back((found == model_.live.end() ? 0 : found->second.length) + std::clamp(counts[i], -kFar, 2 * kFar));
    }
    return upto;
}

// How many leading sequences fit; all of them need what upto says.
std::size_t Program::served_prefix(const Ids& ids, const Ids& upto) const {
    BatchNeed batch;
    for (std::size_t i = 0; i < ids.size(); ++i) {
        model_.need(batch, at(ids[i]), upto[i]);
        if (batch.blocks > model_.available()) return i;
    }
    return ids.size();
}

std::int64_t Program::needed_by(const Ids& ids, const Ids& upto) const {
    BatchNeed batch;
    for (std::size_t i = 0; i < ids.size(); ++i) model_.need(batch, at(ids[i]), upto[i]);
    return batch.blocks;
}

// The leading sequences that the plan serves, grown to what upto says.
void Program::carry_out(const Ids& ids, const Ids& upto, const StepPlan& plan) {
    ExpectedPlan expected;
    for (std::size_t i = 0; i < static_cast<std::size_t>(plan.counts().served); ++i) {
        ModelSequence& s = at(ids[i]);
        model_.grow(s, store_.sequence(ids[i]).table.entries(), upto[i], expected);
        s.emitted = static_cast<std::int64_t>(s.table.size());
        demand(plan.rows()[i] == s.row, "row in the plan");
    }
    model_.apply(plan, expected);
}

void Program::append() {
    const Ids ids = in_.ids();
    Ids counts = in_.amounts(ids.size());
    if (in_.byte() == 255) counts.push_back(1);
    const Fit fit = in_.flag() ? Fit::partial : Fit::whole;
    const std::uint8_t with_ids = in_.byte();
    append(ids, counts, fit, with_ids % 4 == 3, with_ids == 255 ? 1 : 0);
}

void Program::append(const Ids& ids, const Ids& counts, Fit fit, bool tokens, std::int64_t too_many) {
    std::int64_t sum = too_many;
    for (const std::int64_t count : counts) sum += std::clamp(count, -kFar, kFar);
    std::vector<std::int32_t> given;
    SequenceStore::TokenIds ids_of_call{sum, nullptr};
    Expectation expected = for_batch(ids);
    if (counts.size() != ids.size() || (tokens && too_many > 0)) expected.invalid = true;
    const Ids upto = sums(ids, counts);
    for (std::size_t i = 0; i < ids.size(); ++i) {
        const auto found = model_.live.find(ids[i]);
        if (counts[i] < 0) expected.invalid = true;
        if (counts[i] > kFar && tokens) expected.invalid = true;
        if (counts[i] > 0) may_hold(expected, upto[i]);
        if (tokens && counts[i] > 0 && found != model_.live.end() && found->second.known() != found->second.length)
            expected.invalid = true;
    }
    std::size_t served = ids.size();
    if (!expected.refused()) {
        if (fit == Fit::partial) served = served_prefix(ids, upto);
        else expected.needed = needed_by(ids, upto);
    }
    if (tokens && !expected.refused()) {
        for (std::size_t i = 0; i < ids.size(); ++i)
            for (std::int64_t p = at(ids[i]).length; p < upto[i]; ++p) given.push_back(model_.new_id(p));
        ids_of_call.ids = given.data();
    }
    StepPlan plan;
    if (!run(expected, [&] { store_.append(ids, counts, tokens ? std::optional(ids_of_call) : std::nullopt, fit, plan); }))
        return;
    demand(static_cast<std::size_t>(plan.counts().served) == served, "the longest leading run that fits");
    carry_out(ids, upto, plan);
    std::size_t slot = 0;
    for (std::size_t i = 0; i < served; ++i) {
        ModelSequence& s = at(ids[i]);
        demand(plan.lengths()[i] == upto[i], "length in the plan");
        for (std::int64_t p = s.length; p < upto[i]; ++p)
            demand(plan.slots()[slot++] == s.table[static_cast<std::size_t>(p / model_.size)] * model_.size + p % model_.size,
                   "slot in the plan");
        for (std::int64_t p = s.length; tokens && p < upto[i]; ++p) s.ids.push_back(model_.new_id(p));
        model_.write(s, s.length, upto[i]);
        s.length = upto[i];
    }
    demand(slot == plan.slots().size(), "slots in the plan");
    last_plan_ = std::move(plan);
}

void Program::reserve() {
    const Ids ids = in_.ids(), upto = in_.amounts(ids.size());
    Expectation expected = for_batch(ids);
    for (const std::int64_t n : upto) {
        if (n < 0) expected.invalid = true;
        may_hold(expected, n);
    }
    if (!expected.refused()) expected.needed = needed_by(ids, upto);
    StepPlan plan;
    if (!run(expected, [&] { store_.reserve(ids, upto, plan); })) return;
    demand(plan.slots().empty(), "slots in a reservation's plan");
    demand(static_cast<std::size_t>(plan.counts().served) == ids.size(), "a reservation is whole");
    carry_out(ids, upto, plan);
    for (std::size_t i = 0; i < ids.size(); ++i)
        demand(plan.lengths()[i] == at(ids[i]).length, "length in a reservation's plan");
    last_plan_ = std::move(plan);
}
