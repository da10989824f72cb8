// Every allocation of every public operation fails once, in every prepared state; after each failure the store must
// look and go on as if the call had never been made.
#include <new>
#include <sstream>

#include "harness.hpp"
#include "observed.hpp"
#include "prepared_states.hpp"
#include "store_calls.hpp"
#include "store_operations.hpp"

using failing_new::Mode;
using pagedkv::SequenceStore;

namespace {

std::string now(SequenceStore& store) { return observed::state(store, store.allocator()); }

// Equal texts, or the first line that is not.
void same(const std::string& text, const std::string& expected) {
    std::istringstream left(text), right(expected);
    for (std::string a, b; std::getline(left, a) && std::getline(right, b);) CHECK_EQ(a, b);
    CHECK(text == expected);
}

void check(const SequenceStore& store) {
    try {
        store.check();
    } catch (const pagedkv::Error& error) {
        throw harness::Failure{error.what()};
    }
}

// How a call ended: its result, or the type of the error that refused it.
std::string outcome(const StoreOperation& operation, SequenceStore& store, Injection& inject) {
    try {
        operation.run(store, inject);
        return "done: " + inject.result;
    } catch (const pagedkv::OutOfBlocks& error) {
        return std::string("OutOfBlocks: ") + error.what();
    } catch (const pagedkv::NeverFits& error) {
        return std::string("NeverFits: ") + error.what();
    } catch (const pagedkv::InvalidArgument& error) {
        return std::string("InvalidArgument: ") + error.what();
    } catch (const pagedkv::SequenceState& error) {
        return std::string("SequenceState: ") + error.what();
    } catch (const std::bad_alloc&) {
        return "bad_alloc";
    }
}

// What the operation does when nothing fails.
struct Undisturbed {
    std::string outcome, state, future, untouched_future;
    std::int64_t allocations = 0;
};

Undisturbed undisturbed(const PreparedState& state, const StoreOperation& operation) {
    Undisturbed all;
    const auto store = state.make();
    Injection inject(0);
    all.outcome = outcome(operation, *store, inject);
    all.allocations = inject.report.allocations;
    all.state = now(*store);
    check(*store);
    all.future = observed::future(*store);
    all.untouched_future = observed::future(*state.make());
    return all;
}

void one_failure(const PreparedState& state, const StoreOperation& operation, const Undisturbed& expected, std::int64_t k,
                 Mode mode) {
    for (const bool again : {false, true}) {
        const auto store = state.make();
        const std::string before = now(*store);
        Injection inject(k, mode);
        CHECK_EQ(outcome(operation, *store, inject), "bad_alloc");
        CHECK(inject.report.failures >= 1);
        same(now(*store), before);
        check(*store);
        if (!again) {
            same(observed::future(*store), expected.untouched_future);
            continue;
        }
        Injection none(0);
        CHECK_EQ(outcome(operation, *store, none), expected.outcome);
        same(now(*store), expected.state);
        check(*store);
        same(observed::future(*store), expected.future);
    }
}

std::int64_t every_failure(const PreparedState& state, const StoreOperation& operation) {
    const Undisturbed expected = undisturbed(state, operation);
    CHECK(expected.outcome != "bad_alloc");
    for (std::int64_t k = 1; k <= expected.allocations; ++k)
        for (const Mode mode : {Mode::once, Mode::from_then_on}) try {
                one_failure(state, operation, expected, k, mode);
            } catch (const harness::Failure& failure) {
                throw harness::Failure{operation.name + ", " + state.name + ", allocation " + std::to_string(k) + ": " +
                                       failure.what};
            }
    // One more allocation than there is never fails.
    const auto store = state.make();
    Injection beyond(expected.allocations + 1);
    CHECK_EQ(outcome(operation, *store, beyond), expected.outcome);
    CHECK_EQ(beyond.report.failures, 0);
    same(now(*store), expected.state);
    return expected.allocations;
}

void every_operation(const std::vector<StoreOperation>& operations) {
    std::string failures;
    std::int64_t total = 0;
    for (const StoreOperation& operation : operations) {
        std::int64_t injected = 0;
        for (const PreparedState& state : prepared_states()) try {
                injected += every_failure(state, operation);
            } catch (const harness::Failure& failure) {
                failures += "\n  " + failure.what;
                ++injected;
            }
        if ((injected > 0) != operation.allocates)
            failures += "\n  " + operation.name + (operation.allocates ? " allocated nothing" : " allocated");
        total += injected;
    }
    std::cout << total << " allocations failed twice each in " << operations.size() << " operations\n";
    CHECK_EQ(failures, "");
}

template <class Make>
void construction(Make make) {
    failing_new::arm(0);
    make();
    const std::int64_t allocations = failing_new::disarm().allocations;
    CHECK(allocations >= 1);
    for (std::int64_t k = 1; k <= allocations; ++k) {
        const std::int64_t before = failing_new::live();
        failing_new::arm(k);
        bool failed = false;
        try {
            make();
        } catch (const std::bad_alloc&) {
            failed = true;
        }
        CHECK_EQ(failing_new::disarm().failures, 1);
        CHECK(failed);
        CHECK_EQ(failing_new::live(), before);
    }
}

}  // namespace

TEST(growth) { every_operation(growth_operations()); }
TEST(prefix_reuse) { every_operation(prefix_operations()); }
TEST(sharing) { every_operation(sharing_operations()); }
TEST(cursors_and_release) { every_operation(cursor_operations()); }
TEST(exports) { every_operation(export_operations()); }
TEST(allocator) { every_operation(allocator_operations()); }

TEST(construction_leaks_nothing) {
    construction([] { const pagedkv::BlockAllocator pool(100, 0, 0); });
    construction([] { const SequenceStore store(calls::options(100, 16)); });
    construction([] { const SequenceStore store(calls::caching(100, 16)); });
}

// A record that finds no memory is given up, and what it is about happens all the same.
TEST(events_without_memory_are_answered_with_everything) {
    const calls::Request request{some_ids(8)};
    const auto followed = [&] {
        auto store = std::make_unique<SequenceStore>(calls::caching(8, 2));
        store->drain_events();
        calls::admit(*store, 1, request);
        calls::append(*store, {1}, {8});
        return store;
    };
    std::int64_t given_up = 0;
    for (std::int64_t k = 1;; ++k) {
        const auto store = followed();
        const calls::Ids id = {1}, length = {8};
        failing_new::arm(k);
        store->commit(id, length, std::nullopt);
        const bool failed = failing_new::disarm().failures > 0;
        CHECK_EQ(calls::lookup(*store, request, 8), 8);
        const pagedkv::EventBatch batch = store->drain_events();
        CHECK_EQ(batch.kinds, failed ? (calls::Int32s{2, 0, 0, 0, 0}) : (calls::Int32s{0, 0, 0, 0}));
        CHECK_EQ(batch.tokens, some_ids(8));
        CHECK_EQ(batch.token_starts.size(), batch.kinds.size());
        if (!failed) break;
        ++given_up;
    }
    CHECK(given_up > 4);
}

TEST(plans_to_bytes_and_back) {
    const auto store = prepared_states()[1].make();
    const pagedkv::StepPlan plan = calls::append(*store, {5, 6, 7}, {2, 2, 2});
    const std::string bytes = plan.to_bytes();
    construction([&] { CHECK(plan.to_bytes() == bytes); });
    construction([&] { CHECK_EQ(pagedkv::StepPlan::from_bytes(bytes).step, plan.step); });
}

// Groups, rows and scratch memory are used again: once warm, a beam search allocates its plans and nothing else.
TEST(beams_allocate_only_their_plans) {
    SequenceStore store(calls::options(100, 2));
    std::int64_t allocations = 0, plans = 0;
    for (int round = 0; round < 40; ++round) {
        const calls::Ids prompts = {1, 2, 3}, beams = {1, 11, 12, 2, 21, 3}, parents = {1, 1, 0, 0, 3, 3};
        const calls::Ids one(beams.size(), 1), children[] = {{11, 12}, {21}, {31}};
        for (const std::int64_t id : prompts) {
            calls::admit(store, id, 5);
            calls::append(store, {id}, {5});
        }
        failing_new::arm(0);
        for (std::size_t i = 0; i < prompts.size(); ++i) store.fork(prompts[i], children[i]);
        for (int step = 0; step < 3; ++step) {
            pagedkv::StepPlan grown, moved;
            store.append(beams, one, std::nullopt, SequenceStore::Fit::whole, grown);
            store.reorder(beams, parents, moved);
        }
        store.free(prompts, std::nullopt);
        const auto report = failing_new::disarm();
        if (round >= 10) allocations += report.allocations, plans += 6;
        store.free(store.seq_ids(), std::nullopt);
        store.check();
    }
    CHECK_EQ(allocations, plans);
}
