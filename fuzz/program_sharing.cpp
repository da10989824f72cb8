#include <algorithm>

#include "program.hpp"

using pagedkv::StepPlan;

// Batches of unknown ids are refused whole; mostly leave them out, so that something is shared.
Program::Ids Program::mostly_live(const Ids& ids) {
    if (in_.below(8) == 7) return ids;
    Ids all;
    std::copy_if(ids.begin(), ids.end(), std::back_inserter(all), [&](std::int64_t id) { return model_.live.contains(id); });
    return all;
}

// The first id that is not as it must be decides which error it is.
Expectation Program::in_order(const Ids& ids) const {
    Expectation expected;
    for (std::size_t i = 0; i < ids.size() && !expected.refused(); ++i) {
        const auto end = ids.begin() + static_cast<std::ptrdiff_t>(i);
        if (!model_.live.contains(ids[i])) expected.state = true;
        else if (std::find(ids.begin(), end, ids[i]) != end) expected.invalid = true;
    }
    return expected;
}

void Program::fork() {
    const Ids parents = mostly_live(in_.ids());
    Ids children = in_.ids();
    if (parents.empty()) return;
    if (in_.below(8) != 7) std::erase_if(children, [&](std::int64_t id) { return model_.live.contains(id); });
    Expectation expected;
    expected.state = !model_.live.contains(parents[0]);
    for (const std::int64_t id : children)
        if (model_.live.contains(id)) expected.state = true;
    for (const std::int64_t id : children)
        if (!expected.state && std::count(children.begin(), children.end(), id) > 1) expected.invalid = true;
    if (run(expected, [&] { store_.fork(parents[0], children); })) model_.fork(parents[0], children);
}

void Program::reorder() {
    const Ids ids = mostly_live(in_.ids());
    Ids parents;
    for (std::size_t i = 0; i < ids.size(); ++i) {
        const std::uint8_t b = in_.byte();
        parents.push_back(b < 250 ? b % static_cast<std::int64_t>(ids.size()) : in_.amount());
    }
    const std::uint8_t miscounted = in_.byte();
    if (miscounted == 255) parents.push_back(0);
    Expectation expected = in_order(ids);
    if (parents.size() != ids.size()) {
        expected.state = false;
        expected.invalid = true;
    }
    for (const std::int64_t parent : parents)
        if (!expected.refused() && (parent < 0 || parent >= static_cast<std::int64_t>(ids.size()))) expected.invalid = true;
    StepPlan plan;
    if (!run(expected, [&] { store_.reorder(ids, parents, plan); })) return;
    ExpectedPlan wanted;
    model_.reorder(ids, parents, wanted);
    demand(static_cast<std::size_t>(plan.counts().served) == ids.size() && plan.slots().empty(), "a reorder is whole");
    for (std::size_t i = 0; i < ids.size(); ++i)
        demand(plan.rows()[i] == at(ids[i]).row && plan.lengths()[i] == at(ids[i]).length, "row or length of a reorder");
    model_.apply(plan, wanted);
    last_plan_ = std::move(plan);
}
