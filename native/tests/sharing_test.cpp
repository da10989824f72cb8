// Forks: what they share, who copies when somebody writes, and how groups end. reorder_test.cpp has the beam step.
#include "harness.hpp"
#include "store_calls.hpp"

using namespace calls;
using Fit = pagedkv::SequenceStore::Fit;
using pagedkv::InvalidArgument;
using pagedkv::OutOfBlocks;
using pagedkv::SequenceState;

namespace {

// Sequence 1 in row 0: blocks 0 and 1 hold its five tokens, block 2 is only reserved.
struct HalfPrefilled : SequenceStore {
    HalfPrefilled() : SequenceStore(calls::options(10, 4)) {
        calls::admit(*this, 1, 10);
        calls::append(*this, {1}, {5});
        calls::commit(*this, {1}, {4});
    }
};

Ids blocks_left(SequenceStore& store) {
    Ids all;
    while (store.allocator().available() > 0) all.push_back(allocate(store.allocator(), 1)[0]);
    return all;
}

}  // namespace

TEST(a_fork_shares_the_blocks_that_hold_tokens) {
    HalfPrefilled store;
    fork(store, 1, {2, 3});
    for (const SeqId id : {2, 3}) {
        const pagedkv::Sequence& child = store.sequence(id);
        CHECK_EQ(store.row_of(id), static_cast<pagedkv::Row>(id - 1));
        CHECK_EQ(entries(store, id), (Int32s{0, 1}));
        CHECK_EQ(child.table.tokens(), 5);
        CHECK_EQ(child.committed, 4);
        CHECK_EQ(child.known, 10);
        CHECK_EQ(child.emitted, 0);
    }
    CHECK_EQ(entries(store, 1), (Int32s{0, 1, 2}));
    CHECK_EQ(store.allocator().refs(1), 3);
    CHECK_EQ(store.allocator().refs(2), 1);
    const pagedkv::CacheStats stats = store.stats();
    CHECK_EQ(stats.logical_tokens, 15);
    CHECK_EQ(stats.stored_tokens, 5);
    CHECK_EQ(stats.logical_blocks, 7);
    CHECK_EQ(stats.saved_blocks(), 4);
    CHECK_EQ(stats.in_use_blocks, 3);
    CHECK_EQ(stats.active_sequences, 3);
    CHECK_EQ(store.last_step(), 1);
    store.check();
}

TEST(the_last_holder_of_a_block_writes_in_place) {
    HalfPrefilled store;
    fork(store, 1, {2, 3});
    const StepPlan plan = append(store, {2, 3, 1}, {1, 2, 1});
    CHECK_EQ(list(plan.copies()), (Int32s{1, 3, 1, 4}));
    CHECK_EQ(list(plan.updates()), (Int32s{1, 0, 0, 1, 1, 3, 2, 0, 0, 2, 1, 4}));  // children: all; the parent: nothing
    CHECK_EQ(list(plan.slots()), (Ids{13, 17, 18, 5}));
    CHECK_EQ(list(plan.lengths()), (Int32s{6, 7, 6}));
    CHECK_EQ(store.allocator().fill(1), 2);
    CHECK_EQ(store.allocator().fill(3), 2);
    CHECK_EQ(store.allocator().fill(4), 3);
    CHECK_EQ(store.stats().cow_copies, 2);
    CHECK_EQ(store.stats().saved_blocks(), 2);
    store.check();
    CHECK_EQ(append(store, {1, 2, 3}, {1, 1, 1}).counts().copies, 0);
    store.check();
}

// A parent that writes first leaves the block to its child, and its reported entry changes.
TEST(a_parent_that_writes_copies_too) {
    HalfPrefilled store;
    fork(store, 1, {2});
    const StepPlan plan = append(store, {1}, {1});
    CHECK_EQ(list(plan.copies()), (Int32s{1, 3}));
    CHECK_EQ(list(plan.updates()), (Int32s{0, 1, 3}));
    CHECK_EQ(append(store, {2}, {1}).counts().copies, 0);
    CHECK_EQ(entries(store, 2), (Int32s{0, 1}));
    store.check();
}

TEST(as_many_writers_as_fit_are_served) {
    SequenceStore store(options(3, 4));
    admit(store, 1, 5);
    append(store, {1}, {5});
    fork(store, 1, {2, 3});
    CHECK_THROWS(OutOfBlocks, append(store, {1, 2, 3}, {1, 1, 1}));  // two copies, one block
    CHECK_THROWS(OutOfBlocks, reserve(store, {2, 3}, {6, 6}));
    store.check();
    const StepPlan part = append(store, {2, 3, 1}, {1, 1, 1}, std::nullopt, Fit::partial);
    CHECK_EQ(part.counts().served, 1);
    CHECK_EQ(list(part.copies()), (Int32s{1, 2}));
    CHECK_EQ(store.allocator().refs(1), 2);
    store.free(Ids{3}, std::nullopt);
    CHECK_EQ(append(store, {1}, {1}).counts().copies, 0);
    store.check();
}

// A pin is a holder that never writes: both sequences copy, and the pinned content stays.
TEST(pinned_and_shared) {
    HalfPrefilled store;
    store.allocator().increment_ref(Ids{1});
    fork(store, 1, {2});
    CHECK_EQ(list(append(store, {1, 2}, {1, 1}).copies()), (Int32s{1, 3, 1, 4}));
    CHECK_EQ(store.allocator().refs(1), 1);
    CHECK_EQ(store.allocator().fill(1), 1);
    CHECK_EQ(store.stats().table_blocks, 4);
    store.check();
}

TEST(what_the_parent_only_reserved_stays_its_own) {
    HalfPrefilled store;
    append(store, {1}, {3});
    fork(store, 1, {2});
    CHECK_EQ(entries(store, 2), (Int32s{0, 1}));
    CHECK_EQ(list(append(store, {1, 2}, {1, 1}).slots()), (Ids{8, 12}));
    CHECK_EQ(store.stats().cow_copies, 0);
    store.check();
}

TEST(one_prompt_forks_a_thousand_times) {
    HalfPrefilled store;
    Ids children;
    for (SeqId id = 1000; id > 0; --id) children.push_back(id * 1'000'003);
    fork(store, 1, children);
    for (std::size_t i = 0; i < children.size(); ++i) CHECK_EQ(store.row_of(children[i]), static_cast<pagedkv::Row>(i + 1));
    CHECK_EQ(store.allocator().refs(1), 1001);
    store.check();
    store.free(children, std::nullopt);
    CHECK_EQ(store.allocator().refs(1), 1);
    store.check();
}

TEST(forks_of_nothing) {
    SequenceStore store(options(4, 2));
    admit(store, 1, 3, 0);
    fork(store, 1, {2});
    fork(store, 2, {3});
    CHECK_EQ(store.sequence(3).table.size(), 0);
    CHECK_EQ(store.sequence(3).known, 3);
    CHECK_EQ(append(store, {1, 2, 3}, {1, 1, 1}).counts().copies, 0);
    CHECK_EQ(store.stats().saved_blocks(), 0);
    store.check();
    fork(store, 1, {});
    CHECK_EQ(store.stats().active_sequences, 3);
}

TEST(refused_forks_change_nothing) {
    HalfPrefilled store;
    admit(store, 7, 1);
    CHECK_THROWS(SequenceState, fork(store, 5, {6}));
    CHECK_THROWS(SequenceState, fork(store, 5, {}));
    CHECK_THROWS(SequenceState, fork(store, 1, {1}));
    CHECK_THROWS(SequenceState, fork(store, 1, {2, 7}));
    CHECK_THROWS(InvalidArgument, fork(store, 1, {2, 3, 2}));
    CHECK_THROWS(SequenceState, fork(store, 1, {2, 2, 7}));  // a live one counts more
    CHECK_EQ(store.stats().active_sequences, 2);
    CHECK_EQ(store.stats().saved_blocks(), 0);
    CHECK_EQ(store.allocator().refs(0), 1);
    CHECK_EQ(admit(store, 2, 0).row, 2);
    store.check();
}

TEST(a_commit_never_writes_over_what_is_shared) {
    HalfPrefilled store;
    append(store, {1}, {2});
    fork(store, 1, {2});
    store.truncate(Ids{1}, Ids{5}, true);
    CHECK_THROWS(SequenceState, store.commit(Ids{1}, Ids{6}, std::nullopt));
    CHECK_EQ(store.allocator().fill(1), 3);  // the child's tokens
    reserve(store, {1}, {6});
    CHECK_EQ(store.allocator().fill(3), 1);  // what was copied counts as stored
    store.commit(Ids{1}, Ids{6}, std::nullopt);
    CHECK_EQ(entries(store, 1), (Int32s{0, 3, 2}));
    CHECK_EQ(entries(store, 2), (Int32s{0, 1}));
    store.check();
}

// Had `common` not shrunk, the reorder at the end would leave blocks in place that differ.
TEST(a_copy_ends_what_is_common) {
    SequenceStore store(options(12, 2));
    admit(store, 1, 6);
    append(store, {1}, {6});
    fork(store, 1, {2, 3});
    store.truncate(Ids{2}, Ids{3}, true);
    append(store, {2}, {1});  // copies the middle block only
    CHECK_EQ(entries(store, 2), (Int32s{0, 3, 2}));
    store.check();
    reorder(store, {1, 2, 3}, {1, 1, 2});
    CHECK_EQ(entries(store, 1), (Int32s{0, 3}));
    CHECK_EQ(entries(store, 2), (Int32s{0, 3, 2}));
    store.check();
    store.free(Ids{3, 1, 2}, std::nullopt);
    CHECK_EQ(store.stats().free_blocks(), 12);
    store.check();
}

TEST(a_cut_ends_what_is_common) {
    SequenceStore store(options(12, 2));
    admit(store, 1, 6);
    append(store, {1}, {6});
    fork(store, 1, {2});
    store.truncate(Ids{1}, Ids{2}, false);
    store.check();
    append(store, {1}, {4});
    CHECK_EQ(entries(store, 1), (Int32s{0, 3, 4}));
    const StepPlan plan = reorder(store, {2, 1}, {1, 1});
    CHECK_EQ(list(plan.updates()), (Int32s{1, 0, 0, 1, 1, 3, 1, 2, 4}));
    CHECK_EQ(store.stats().in_use_blocks, 3);
    store.check();
}

// A parent cut short that keeps its blocks: a fork takes what holds tokens, though its group shares more.
TEST(a_fork_of_a_short_member) {
    SequenceStore store(options(12, 2));
    admit(store, 1, 6);
    append(store, {1}, {6});
    fork(store, 1, {2});
    store.truncate(Ids{1}, Ids{2}, true);
    fork(store, 1, {3});
    CHECK_EQ(entries(store, 3), (Int32s{0}));
    store.check();
    store.free(Ids{2, 3, 1}, std::nullopt);
    CHECK_EQ(store.stats().free_blocks(), 12);
}

TEST(a_group_of_one_forks_again) {
    HalfPrefilled store;
    fork(store, 1, {2});
    store.free(Ids{1}, std::nullopt);
    append(store, {2}, {6});
    CHECK_EQ(store.stats().cow_copies, 0);
    fork(store, 2, {3, 4});
    CHECK_EQ(entries(store, 3).size(), std::size_t{3});
    store.check();
    append(store, {3, 4}, {1, 1});
    store.check();
    reorder(store, {2, 3, 4}, {2, 2, 2});
    CHECK_EQ(entries(store, 2), entries(store, 4));
    store.check();
    store.free(Ids{4, 3, 2}, std::nullopt);
    CHECK_EQ(store.stats().free_blocks(), 10);
    store.check();
}

TEST(places_of_ended_groups_serve_new_ones) {
    SequenceStore store(options(40, 2));
    for (int round = 0; round < 50; ++round) {
        for (const SeqId id : {10, 20, 30}) {
            admit(store, id, 4);
            append(store, {id}, {4});
            fork(store, id, {id + 1, id + 2});
        }
        append(store, {10, 11, 21, 22, 32}, {1, 1, 1, 1, 1});
        store.check();
        store.free(round % 2 == 0 ? Ids{10, 20, 11, 12, 30, 31, 21} : Ids{32, 22, 12, 11, 10}, std::nullopt);
        store.check();
        store.free(store.seq_ids(), std::nullopt);
        CHECK_EQ(store.stats().free_blocks(), 40);
    }
}

TEST(shared_blocks_come_back_with_their_last_holder) {
    HalfPrefilled store;
    fork(store, 1, {2});
    append(store, {2}, {1});  // block 1 is the parent's alone now, block 3 the child's
    store.allocator().publish(Ids{0});
    store.free(Ids{1}, 2);
    CHECK_EQ(store.stats().pending_blocks, 2);
    store.free(Ids{2}, std::nullopt);
    CHECK_EQ(store.stats().pending_blocks, 3);  // the parent's step holds block 0, whoever drops it last
    store.check();
    store.retire(2);
    CHECK_EQ(store.stats().cached_blocks, 1);
    store.check();
}

TEST(a_group_that_ends_gives_its_head_out_first) {
    SequenceStore store(options(6, 2));
    admit(store, 1, 4);
    append(store, {1}, {4});
    fork(store, 1, {2, 3});
    append(store, {2, 3, 1}, {1, 2, 1});  // blocks 2, 3, 4
    store.free(Ids{3, 1, 2}, std::nullopt);
    CHECK_EQ(blocks_left(store), (Ids{0, 1, 2, 4, 3, 5}));
}
