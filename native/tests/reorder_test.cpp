// The beam step: each sequence becomes what another one was, all at once.
#include "harness.hpp"
#include "store_calls.hpp"

using namespace calls;
using pagedkv::InvalidArgument;
using pagedkv::SequenceState;

namespace {

// Sequences 1, 2, 3 in rows 0, 1, 2: blocks 0 and 1 in common, then 2, 3, 4, one each.
struct ThreeBeams : SequenceStore {
    ThreeBeams() : SequenceStore(calls::options(12, 2)) {
        calls::admit(*this, 1, 4);
        calls::append(*this, {1}, {4});
        calls::fork(*this, 1, {2, 3});
        calls::append(*this, {1, 2, 3}, {1, 1, 1});
    }
};

// Sequences 1 and 2 with 3 and 2 blocks that have nothing to do with each other.
struct Strangers : SequenceStore {
    Strangers() : SequenceStore(calls::options(12, 2)) {
        for (const SeqId id : {1, 2}) {
            calls::admit(*this, id, 7 - 2 * id);
            calls::append(*this, {id}, {7 - 2 * id});
        }
    }
};

Ids blocks_left(SequenceStore& store) {
    Ids all;
    while (store.allocator().available() > 0) all.push_back(allocate(store.allocator(), 1)[0]);
    return all;
}

}  // namespace

TEST(beams_become_their_parents_at_once) {
    ThreeBeams store;
    const StepPlan plan = reorder(store, {1, 2, 3}, {1, 1, 0});
    CHECK_EQ(entries(store, 1), (Int32s{0, 1, 3}));
    CHECK_EQ(entries(store, 2), (Int32s{0, 1, 3}));
    CHECK_EQ(entries(store, 3), (Int32s{0, 1, 2}));
    CHECK_EQ(plan.step, 3);
    CHECK_EQ(list(plan.rows()), (Int32s{0, 1, 2}));
    CHECK_EQ(list(plan.lengths()), (Int32s{5, 5, 5}));
    CHECK_EQ(list(plan.updates()), (Int32s{0, 2, 3, 2, 2, 2}));
    CHECK(plan.slots().empty());
    CHECK(plan.copies().empty());
    CHECK_EQ(store.allocator().refs(3), 2);
    CHECK_EQ(store.allocator().refs(0), 3);
    CHECK_EQ(store.stats().saved_blocks(), 5);
    CHECK_EQ(blocks_left(store)[0], 4);  // nobody's any more
    store.check();
}

// A private block survives its only holder's move if another sequence takes it over.
TEST(beams_trade_places) {
    ThreeBeams store;
    reorder(store, {3, 1, 2}, {1, 2, 0});
    CHECK_EQ(entries(store, 1), (Int32s{0, 1, 3}));
    CHECK_EQ(entries(store, 2), (Int32s{0, 1, 4}));
    CHECK_EQ(entries(store, 3), (Int32s{0, 1, 2}));
    CHECK_EQ(store.stats().in_use_blocks, 5);
    store.check();
    Strangers others;
    reorder(others, {1, 2}, {1, 0});
    CHECK_EQ(entries(others, 1), (Int32s{3, 4}));
    CHECK_EQ(entries(others, 2), (Int32s{0, 1, 2}));
    CHECK_EQ(others.stats().in_use_blocks, 5);
    CHECK_EQ(others.stats().saved_blocks(), 0);
    others.check();
}

TEST(cursors_move_with_the_blocks) {
    Strangers store;
    store.commit(Ids{1, 2}, Ids{4, 2}, std::nullopt);
    append(store, {2}, {1});
    const StepPlan plan = reorder(store, {2, 1}, {1, 1});
    CHECK_EQ(list(plan.lengths()), (Int32s{5, 5}));
    CHECK_EQ(store.sequence(2).committed, 4);
    CHECK_EQ(store.sequence(2).known, 5);
    CHECK_EQ(store.stats().logical_tokens, 10);
    CHECK_EQ(store.stats().stored_tokens, 5);
    store.check();
}

// Reserved entries of who stays are kept, and reported now; those of who moves, and of parents, are not.
TEST(only_blocks_that_hold_tokens_move) {
    Strangers store;
    admit(store, 3, 5);  // two entries that no plan has reported
    append(store, {1}, {1});
    reserve(store, {1, 2}, {7, 8});
    const StepPlan plan = reorder(store, {2, 1, 3}, {1, 1, 2});
    CHECK_EQ(store.sequence(1).table.size(), 4);
    CHECK_EQ(entries(store, 2), (Int32s{0, 1, 2}));
    CHECK_EQ(list(plan.rows()), (Int32s{1, 0, 2}));
    CHECK_EQ(list(plan.updates()), (Int32s{1, 0, 0, 1, 1, 1, 1, 2, 2, 2, 0, 5, 2, 1, 6, 2, 2, 7}));
    for (const SeqId id : {1, 2, 3}) CHECK_EQ(std::int64_t{store.sequence(id).emitted}, store.sequence(id).table.size());
    store.check();
}

TEST(a_child_that_no_plan_named_reports_its_whole_row) {
    ThreeBeams store;
    fork(store, 1, {4});
    const StepPlan plan = reorder(store, {4, 3}, {1, 1});
    CHECK_EQ(list(plan.updates()), (Int32s{3, 0, 0, 3, 1, 1, 3, 2, 4}));
    CHECK_EQ(entries(store, 4), (Int32s{0, 1, 4}));
    fork(store, 1, {5});
    CHECK_EQ(list(reorder(store, {5}, {0}).updates()), (Int32s{4, 0, 0, 4, 1, 1, 4, 2, 2}));
    store.check();
}

TEST(strangers_join_the_group_of_their_parent) {
    Strangers store;
    admit(store, 3, 2);
    append(store, {3}, {2});
    const StepPlan plan = reorder(store, {3, 1, 2}, {1, 1, 1});
    CHECK_EQ(list(plan.updates()), (Int32s{2, 0, 0, 2, 1, 1, 2, 2, 2, 1, 0, 0, 1, 1, 1, 1, 2, 2}));
    CHECK_EQ(store.stats().in_use_blocks, 3);
    store.check();
    CHECK_EQ(list(append(store, {1, 2, 3}, {1, 1, 1}).copies()).size(), std::size_t{4});
    CHECK_EQ(list(reorder(store, {1, 2, 3}, {2, 1, 2}).updates()).size(), std::size_t{3});  // the last column of one row
    store.check();
    store.free(Ids{2, 1, 3}, std::nullopt);
    CHECK_EQ(store.stats().free_blocks(), 12);
    store.check();
}

// A member leaves for another group; what it had is the others' alone, and both groups go on.
TEST(members_change_groups) {
    ThreeBeams store;
    admit(store, 7, 3);
    append(store, {7}, {3});
    fork(store, 7, {8});
    reorder(store, {2, 8}, {1, 1});
    CHECK_EQ(entries(store, 2), entries(store, 7));
    CHECK_EQ(store.allocator().refs(0), 2);
    store.check();
    append(store, {2, 7, 8, 1, 3}, {1, 1, 1, 2, 2});
    reorder(store, {1, 3, 2, 7}, {1, 0, 3, 2});
    store.check();
    reorder(store, {1, 7, 3}, {1, 0, 1});
    store.check();
    store.free(Ids{1, 8, 7, 2, 3}, std::nullopt);
    CHECK_EQ(store.stats().free_blocks(), 12);
    store.check();
}

TEST(a_shorter_parent_ends_what_is_common) {
    ThreeBeams store;
    store.truncate(Ids{2}, Ids{2}, true);
    const StepPlan plan = reorder(store, {1, 2, 3}, {1, 1, 2});
    CHECK_EQ(entries(store, 1), (Int32s{0}));
    CHECK(plan.updates().empty());
    store.check();
    append(store, {1}, {4});
    reorder(store, {3, 1}, {1, 1});
    CHECK_EQ(entries(store, 3), entries(store, 1));
    CHECK_EQ(store.allocator().refs(1), 1);  // only the short one kept it
    store.check();
}

TEST(old_blocks_come_back_in_argument_order_deepest_first) {
    SequenceStore store(options(7, 2));
    for (const SeqId id : {1, 2, 3}) {
        admit(store, id, 4);
        append(store, {id}, {4});
    }
    reorder(store, {3, 1, 2}, {2, 2, 2});
    CHECK_EQ(blocks_left(store), (Ids{0, 1, 4, 5, 6}));
    store.check();
}

TEST(old_blocks_are_kept_by_pins_steps_and_contents) {
    ThreeBeams store;
    store.allocator().increment_ref(Ids{2});
    store.allocator().publish(Ids{3});
    fork(store, 3, {4});
    store.free(Ids{4}, 2);  // work in flight may touch block 4
    admit(store, 5, 1);
    append(store, {5}, {1});
    reorder(store, {1, 2, 3, 5}, {3, 3, 3, 3});
    CHECK_EQ(store.allocator().refs(2), 1);
    CHECK_EQ(store.stats().table_blocks, 1);
    CHECK_EQ(store.stats().cached_blocks, 1);
    CHECK_EQ(store.stats().pending_blocks, 3);  // 0 and 1 were the freed child's too
    store.check();
    store.retire(2);
    CHECK_EQ(store.stats().pending_blocks, 0);
    store.check();
}

TEST(a_reorder_of_nobody_is_a_step) {
    ThreeBeams store;
    CHECK_EQ(reorder(store, {}, {}).step, 3);
    CHECK_EQ(reorder(store, {3, 1, 2}, {0, 1, 2}).counts().updates, 0);
    CHECK_EQ(store.last_step(), 4);
    CHECK_EQ(entries(store, 2), (Int32s{0, 1, 3}));
    store.check();
}

TEST(refused_reorders_change_nothing) {
    ThreeBeams store;
    CHECK_THROWS(InvalidArgument, reorder(store, {1, 2}, {1}));
    CHECK_THROWS(InvalidArgument, reorder(store, {1, 77}, {0}));  // the counts are compared first
    CHECK_THROWS(InvalidArgument, reorder(store, {1, 2, 1}, {0, 0, 0}));
    CHECK_THROWS(InvalidArgument, reorder(store, {1, 1, 77}, {0, 0, 0}));
    CHECK_THROWS(SequenceState, reorder(store, {1, 77, 1}, {0, 0, 0}));
    CHECK_THROWS(SequenceState, reorder(store, {1, 77}, {9, 0}));  // ids come before places
    for (const std::int64_t bad : {std::int64_t{2}, std::int64_t{-1}, std::numeric_limits<std::int64_t>::max(),
                                   std::numeric_limits<std::int64_t>::min(), std::int64_t{1} << 32})
        CHECK_THROWS(InvalidArgument, reorder(store, {1, 2}, {1, bad}));
    CHECK_EQ(store.last_step(), 2);
    CHECK_EQ(entries(store, 1), (Int32s{0, 1, 2}));
    CHECK_EQ(store.stats().saved_blocks(), 4);
    store.check();
}
