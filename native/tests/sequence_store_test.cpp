// The store on its own: cursors, plans, refusals. The Python reference model covers it in depth; this is the part that
// must hold before a binding exists.
#include "harness.hpp"
#include "store_calls.hpp"

using namespace calls;
using Fit = pagedkv::SequenceStore::Fit;
using pagedkv::BlockState;
using pagedkv::InvalidArgument;
using pagedkv::NeverFits;
using pagedkv::OutOfBlocks;
using pagedkv::SequenceState;

TEST(a_sequence_from_admission_to_free) {
    SequenceStore store(options(8, 4));
    CHECK_EQ(admit(store, 70, 6).row, 0);
    CHECK_EQ(entries(store, 70), (Int32s{0, 1}));
    CHECK_EQ(store.sequence(70).table.tokens(), 0);

    const StepPlan chunk = append(store, {70}, {6});
    CHECK_EQ(chunk.step, 1);
    CHECK_EQ(list(chunk.slots()), (Ids{0, 1, 2, 3, 4, 5}));
    CHECK_EQ(list(chunk.updates()), (Int32s{0, 0, 0, 0, 1, 1}));
    CHECK_EQ(list(chunk.lengths()), (Int32s{6}));

    const StepPlan decode = append(store, {70}, {3}, Int32s{7, 8, 9});
    CHECK_EQ(list(decode.slots()), (Ids{6, 7, 8}));
    CHECK_EQ(list(decode.updates()), (Int32s{0, 2, 2}));
    store.commit(Ids{70}, Ids{7}, std::nullopt);
    CHECK_EQ(store.sequence(70).committed, 7);
    store.truncate(Ids{70}, Ids{5}, false);
    CHECK_EQ(entries(store, 70), (Int32s{0, 1}));
    CHECK_EQ(store.sequence(70).committed, 5);
    store.check();
    store.free(Ids{70}, std::nullopt);
    CHECK_EQ(store.stats().free_blocks(), 8);
    CHECK_THROWS(SequenceState, store.free(Ids{70}, std::nullopt));
    store.check();
}

TEST(slots_are_64_bits) {
    SequenceStore store(options(1'000'000, 65'536));
    allocate(store.allocator(), 999'998);
    admit(store, 1, 0);
    const StepPlan plan = append(store, {1}, {65'537});
    CHECK_EQ(plan.slots().front(), std::int64_t{999'998} * 65'536);
    CHECK_EQ(plan.slots().back(), std::int64_t{999'999} * 65'536);
}

TEST(a_batch_is_whole_or_nothing) {
    SequenceStore store(options(4, 2));
    for (const SeqId id : {1, 2, 3}) admit(store, id, 2);
    append(store, {1, 2, 3}, {2, 2, 2});
    CHECK_THROWS(OutOfBlocks, append(store, {1, 2, 3}, {1, 1, 1}));
    CHECK_EQ(store.last_step(), 1);
    CHECK_EQ(store.stats().logical_tokens, 6);
    CHECK_EQ(store.allocator().clean(), 1);
    const StepPlan part = append(store, {2, 1, 3}, {1, 1, 1}, std::nullopt, Fit::partial);
    CHECK_EQ(part.counts().served, 1);
    CHECK_EQ(list(part.rows()), (Int32s{1}));
    CHECK_EQ(list(part.slots()), (Ids{6}));
    store.check();
}

TEST(refusals_change_nothing) {
    SequenceStore store(options(4, 2));
    admit(store, 1, 3);
    CHECK_THROWS(SequenceState, admit(store, 1, 1));
    CHECK_THROWS(NeverFits, admit(store, 2, 9));
    CHECK_THROWS(OutOfBlocks, admit(store, 2, 6));
    CHECK_EQ(store.stats().failed_admissions, 1);
    CHECK_THROWS(InvalidArgument, admit(store, 2, 1, -1));
    CHECK_THROWS(InvalidArgument, append(store, {1, 1}, {1, 1}));
    CHECK_THROWS(InvalidArgument, append(store, {1}, {-1}));
    CHECK_THROWS(InvalidArgument, append(store, {1}, {1, 1}));
    CHECK_THROWS(InvalidArgument, append(store, {1}, {1}, Int32s{7}));  // the prompt's ids are known already
    CHECK_THROWS(SequenceState, append(store, {1, 5}, {1, 1}));
    for (const std::int64_t n : {std::int64_t{9}, std::int64_t{1} << 31, std::numeric_limits<std::int64_t>::max()}) {
        CHECK_THROWS(NeverFits, append(store, {1}, {n}));
        CHECK_THROWS(NeverFits, append(store, {1}, {n}, std::nullopt, Fit::partial));
        CHECK_THROWS(NeverFits, reserve(store, {1}, {n}));
        CHECK_THROWS(InvalidArgument, store.commit(Ids{1}, Ids{n}, std::nullopt));
        CHECK_THROWS(InvalidArgument, store.truncate(Ids{1}, Ids{n}, false));
    }
    CHECK_THROWS(InvalidArgument, store.free(Ids{1}, 1));
    CHECK_THROWS(InvalidArgument, store.retire(1));
    CHECK_EQ(store.last_step(), 0);
    CHECK_EQ(entries(store, 1), (Int32s{0, 1}));
    store.check();
}

TEST(a_pinned_block_is_copied_before_it_is_written) {
    SequenceStore store(options(4, 4));
    admit(store, 1, 2);
    append(store, {1}, {2});
    store.allocator().increment_ref(Ids{0});
    const StepPlan plan = append(store, {1}, {1});
    CHECK_EQ(list(plan.copies()), (Int32s{0, 1}));
    CHECK_EQ(list(plan.updates()), (Int32s{0, 0, 1}));
    CHECK_EQ(list(plan.slots()), (Ids{6}));
    CHECK_EQ(store.allocator().fill(0), 2);
    CHECK_EQ(store.allocator().fill(1), 3);
    store.check();
    store.allocator().free(Ids{0});
    CHECK_EQ(store.allocator().clean(), 3);
}

TEST(lookahead_is_reserved_written_and_committed) {
    SequenceStore store(options(4, 2));
    admit(store, 1, 1);
    append(store, {1}, {1});
    const StepPlan room = reserve(store, {1}, {5});
    CHECK_EQ(room.slots().size(), std::size_t{0});
    CHECK_EQ(list(room.updates()), (Int32s{0, 1, 1, 0, 2, 2}));
    CHECK_EQ(list(room.lengths()), (Int32s{1}));
    CHECK_THROWS(InvalidArgument, store.commit(Ids{1}, Ids{7}, std::nullopt));
    store.commit(Ids{1}, Ids{4}, std::nullopt);
    CHECK_EQ(store.sequence(1).table.tokens(), 4);
    store.truncate(Ids{1}, Ids{2}, true);
    CHECK_EQ(store.sequence(1).table.size(), 3);
    store.check();
}

TEST(freed_rows_and_blocks_come_back_head_first) {
    SequenceStore store(options(6, 2));
    for (const SeqId id : {1, 2, 3}) admit(store, id, 4);
    store.free(Ids{2}, std::nullopt);
    CHECK_EQ(admit(store, 9, 4).row, 1);
    CHECK_EQ(entries(store, 9), (Int32s{2, 3}));
    append(store, {9}, {4});
    store.free(Ids{9}, 1);
    CHECK_EQ(store.stats().pending_blocks, 2);
    CHECK_THROWS(OutOfBlocks, admit(store, 9, 1));
    CHECK_EQ(admit(store, 9, 0).row, 1);  // the id and the row are free at once
    store.retire(1);
    CHECK_EQ(store.stats().clean_blocks, 2);
    store.check();
}

TEST(impossible_options_are_refused) {
    for (const std::int64_t bad :
         {std::int64_t{0}, std::int64_t{-1}, std::int64_t{1} << 40, std::numeric_limits<std::int64_t>::min()}) {
        CHECK_THROWS(InvalidArgument, SequenceStore(options(bad, 4)));
        CHECK_THROWS(InvalidArgument, SequenceStore(options(4, bad)));
        auto o = options(4, 4);
        o.max_tokens = bad;
        CHECK_THROWS(InvalidArgument, SequenceStore{o});
    }
    for (const std::int64_t bad : {std::int64_t{4}, std::int64_t{-1}, std::numeric_limits<std::int64_t>::max()}) {
        auto o = options(4, 4);
        o.watermark = bad;
        CHECK_THROWS(InvalidArgument, SequenceStore{o});
        o.watermark = 0;
        o.scratch_blocks = bad == 4 ? std::numeric_limits<std::int64_t>::min() : bad;
        CHECK_THROWS(InvalidArgument, SequenceStore{o});
    }
}
