// The part of a worker's life in which its sequences share blocks.
#include <algorithm>

#include "stress_worker.hpp"

using namespace calls;
using harness::below;

// With the plan, before anybody's next one: a stream carries plans out in their order, and the source of a copy may be
// free as soon as the copy is planned.
void StressWorker::copy_blocks(const StepPlan& plan) {
    const auto copies = plan.copies();
    for (std::size_t i = 0; i < copies.size(); i += 2)
        std::copy_n(memory_.begin() + copies[i] * block_size_, block_size_, memory_.begin() + copies[i + 1] * block_size_);
}

void StressWorker::fork_owned() {
    const Ids parents = some_owned();
    if (parents.empty()) return;
    Ids children;
    for (SeqId id = first_id_; id < first_id_ + kOwned; ++id)
        if (!tokens_.contains(id) && below(random_, 2) == 0) children.push_back(id);
    manager_.locked([&](SequenceStore& store) { store.fork(parents[0], children); });
    for (const SeqId id : children) tokens_[id] = tokens_[parents[0]];
}

void StressWorker::reorder_owned() {
    const Ids ids = some_owned();
    Ids parents;
    for (std::size_t i = 0; i < ids.size(); ++i) parents.push_back(below(random_, static_cast<std::int64_t>(ids.size())));
    const StepPlan plan = manager_.locked([&](SequenceStore& store) { return reorder(store, ids, parents); });
    ++plans_;
    newest_plan_ = plan.step;
    const std::map<SeqId, Ids> before = tokens_;
    for (std::size_t i = 0; i < ids.size(); ++i) {
        tokens_[ids[i]] = before.at(ids[static_cast<std::size_t>(parents[i])]);
        CHECK_EQ(std::int64_t{plan.lengths()[i]}, length(ids[i]));
    }
}

// Beams of one search end together, some of them or all.
void StressWorker::free_owned() {
    const Ids ids = some_owned();
    const auto after = below(random_, 2) == 0 ? std::optional(newest_plan_) : std::nullopt;
    manager_.locked([&](SequenceStore& store) { store.free(ids, after); });
    for (const SeqId id : ids) tokens_.erase(id);
}
