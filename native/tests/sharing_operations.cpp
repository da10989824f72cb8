#include <limits>

#include "harness.hpp"
#include "store_calls.hpp"
#include "store_operations.hpp"

using namespace calls;

namespace {

// The first live sequence, or the last, becomes `count` more.
enum class Parent { first, last, unknown };

SeqId named(const SequenceStore& store, Parent parent) {
    const Ids live = store.seq_ids();
    if (parent == Parent::unknown || live.empty()) return -77;
    return parent == Parent::first ? live.front() : live.back();
}

Ids fresh(std::int64_t count) {
    Ids ids;
    for (std::int64_t i = 0; i < count; ++i) ids.push_back(-1000 - i);
    return ids;
}

StoreOperation forking(const char* name, Parent parent, const Ids& children, bool and_itself = false) {
    const auto run = [=](SequenceStore& store, Injection& inject) {
        const SeqId id = named(store, parent);
        Ids all = children;
        if (and_itself) all.push_back(id);
        inject([&] { store.fork(id, all); });
        for (const SeqId child : all) inject.result += pagedkv::join(store.row_of(child), " ");
    };
    return {name, run};
}

using Choose = std::function<std::int64_t(std::int64_t place, std::int64_t count)>;

// All live sequences, each becoming the one that `choose` says.
StoreOperation reordering(const char* name, Choose choose, const Ids& more_ids = {}) {
    const auto run = [=](SequenceStore& store, Injection& inject) {
        Ids ids = store.seq_ids();
        ids.insert(ids.end(), more_ids.begin(), more_ids.end());
        Ids parents;
        const auto count = static_cast<std::int64_t>(ids.size());
        for (std::int64_t i = 0; i < count; ++i) parents.push_back(choose(i, count));
        StepPlan plan;
        inject([&] { store.reorder(ids, parents, plan); });
        inject.result = plan.to_bytes();
    };
    return {name, run};
}

StoreOperation miscounted() {
    const auto run = [](SequenceStore& store, Injection& inject) {
        const Ids ids = store.seq_ids(), parents(ids.size() + 1, 0);
        StepPlan plan;
        inject([&] { store.reorder(ids, parents, plan); });
    };
    return {"reorder with a parent too many", run};
}

}  // namespace

std::vector<StoreOperation> sharing_operations() {
    return {
        forking("fork one", Parent::first, fresh(1)),
        forking("fork the last", Parent::last, fresh(2)),
        forking("fork a hundred", Parent::last, fresh(100)),
        forking("fork nobody", Parent::first, {}),
        forking("fork an unknown sequence", Parent::unknown, fresh(1)),
        forking("fork into a live sequence", Parent::first, fresh(1), true),
        forking("fork one sequence twice", Parent::first, {-1000, -1001, -1000}),
        reordering("reorder nothing", [](auto i, auto) { return i; }),
        reordering("reorder in a circle", [](auto i, auto n) { return (i + 1) % n; }),
        reordering("reorder by pairs", [](auto i, auto n) { return (i ^ 1) < n ? i ^ 1 : i; }),
        reordering("reorder to the first", [](auto, auto) { return 0; }),
        reordering("reorder to the last", [](auto, auto n) { return n - 1; }),
        reordering("reorder to the one before", [](auto i, auto) { return i / 2; }),
        reordering("reorder to nobody", [](auto, auto n) { return n; }),
        reordering("reorder to before the first", [](auto, auto) { return std::numeric_limits<std::int64_t>::min(); }),
        reordering("reorder an unknown sequence", [](auto, auto) { return 0; }, {-77}),
        reordering("reorder one sequence twice", [](auto, auto) { return 0; }, {5, 5}),
        miscounted(),
    };
}
