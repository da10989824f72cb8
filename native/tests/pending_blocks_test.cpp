// Blocks given back while a step in flight may still touch them.
#include "harness.hpp"
#include "store_calls.hpp"

using calls::allocate;
using calls::Ids;
using pagedkv::BlockAllocator;
using pagedkv::BlockId;
using pagedkv::BlockState;
using pagedkv::OutOfBlocks;

namespace {

void check(BlockAllocator& pool) {
    pool.note_peak();  // take() leaves that to the operation that ends
    std::vector<std::int32_t> table_refs(static_cast<std::size_t>(pool.total()));
    for (BlockId b = 0; b < pool.total(); ++b) table_refs[static_cast<std::size_t>(b)] = pool.refs(b) - pool.pins(b);
    pool.check(table_refs);
}

}  // namespace

TEST(pending_blocks_wait_for_their_step) {
    BlockAllocator pool(4, 0, 0);
    for (int i = 0; i < 4; ++i) pool.raise_fill(pool.take(), 2);
    pool.release(0, 5);
    pool.release(1, 3);  // an earlier step, given later
    pool.release(2, 5);
    CHECK_EQ(pool.pending(), 3);
    CHECK_EQ(pool.stored_tokens(), 2);
    CHECK_THROWS(OutOfBlocks, pool.require(1));
    check(pool);
    pool.retire(2);
    CHECK_EQ(pool.pending(), 3);
    pool.retire(3);
    CHECK_EQ(pool.pending(), 2);
    CHECK_EQ(allocate(pool, 1), (std::vector<BlockId>{1}));
    pool.retire(9);
    CHECK_EQ(pool.pending(), 0);
    CHECK_EQ(pool.clean(), 2);
    pool.release(3, 9);  // a step that has retired: at once
    CHECK_EQ(pool.pending(), 0);
    check(pool);
}

TEST(published_pending_blocks_become_cached_and_can_be_revived_before) {
    BlockAllocator pool(3, 0, 0);
    for (BlockId b = 0; b < 3; ++b) {
        pool.raise_fill(pool.take(), 4);
        if (b < 2) pool.publish(Ids{b});
        pool.release(b, 1);
    }
    CHECK_EQ(pool.pending(), 3);
    CHECK_THROWS(pagedkv::SequenceState, pool.increment_ref(Ids{2}));
    pool.increment_ref(Ids{0});
    CHECK(pool.state(0) == BlockState::in_use);
    CHECK_EQ(pool.fill(0), 4);
    check(pool);
    pool.free(Ids{0});  // step 1 may still read it, whoever held it last
    CHECK(pool.state(0) == BlockState::pending);
    check(pool);
    pool.unpublish(Ids{1});
    pool.retire(1);
    CHECK(pool.state(0) == BlockState::cached);
    CHECK(pool.state(1) == BlockState::clean);
    CHECK(pool.state(2) == BlockState::clean);
    check(pool);
}

TEST(a_revived_block_that_outlives_its_step_is_free_at_once) {
    BlockAllocator pool(1, 0, 0);
    pool.raise_fill(pool.take(), 4);
    pool.publish(Ids{0});
    pool.release(0, 2);
    pool.increment_ref(Ids{0});
    pool.retire(2);
    CHECK(pool.state(0) == BlockState::in_use);
    pool.free(Ids{0});
    CHECK(pool.state(0) == BlockState::cached);
    check(pool);
}

TEST(a_deferred_drop_of_a_shared_block_defers_it_for_the_last_holder) {
    BlockAllocator pool(2, 0, 0);
    pool.raise_fill(pool.take(), 1);
    pool.increment_ref(Ids{0});
    pool.release(0, 7);
    CHECK(pool.state(0) == BlockState::in_use);
    pool.free(Ids{0});
    CHECK(pool.state(0) == BlockState::pending);
    pool.retire(6);
    CHECK(pool.state(0) == BlockState::pending);
    pool.retire(7);
    CHECK(pool.state(0) == BlockState::clean);
    check(pool);
}

TEST(the_latest_of_several_steps_counts) {
    for (const bool later_first : {true, false}) {
        BlockAllocator pool(1, 0, 0);
        const BlockId b = pool.take();
        pool.acquire({&b, 1});
        pool.release(b, later_first ? 8 : 4);
        pool.release(b, later_first ? 4 : 8);
        CHECK(pool.state(b) == BlockState::pending);
        pool.retire(7);
        CHECK(pool.state(b) == BlockState::pending);
        pool.retire(8);
        CHECK(pool.state(b) == BlockState::clean);
        check(pool);
    }
}

TEST(a_block_handed_out_again_has_forgotten_its_step) {
    BlockAllocator pool(1, 0, 0);
    pool.release(pool.take(), 3);
    pool.retire(3);
    const BlockId b = pool.take();
    pool.release(b, 0);
    CHECK(pool.state(b) == BlockState::clean);
    check(pool);
}

namespace {

// Sequences 1 (seven tokens) and `shorter` ones (five) in blocks 0 and 1; sequence 1 has ended, step 1 may still read it.
struct EndedLongOne : pagedkv::SequenceStore {
    explicit EndedLongOne(const calls::Ids& shorter) : SequenceStore(calls::options(6, 4)) {
        calls::admit(*this, 1, 7);
        calls::append(*this, {1}, {7});
        calls::fork(*this, 1, shorter);
        truncate(shorter, calls::Ids(shorter.size(), 5), true);
        calls::reserve(*this, shorter, calls::Ids(shorter.size(), 0));  // reports their rows: the shortest way to append
        free(calls::Ids{1}, 1);
    }
};

}  // namespace

TEST(the_last_holder_does_not_write_over_tokens_of_an_ended_one) {
    EndedLongOne store({2});
    CHECK_THROWS(pagedkv::SequenceState, store.commit(Ids{2}, Ids{6}, std::nullopt));
    store.truncate(Ids{2}, Ids{5}, true);
    CHECK_EQ(store.allocator().fill(1), 3);
    CHECK_EQ(calls::list(calls::append(store, {2}, {1}).copies()), (std::vector<std::int32_t>{1, 2}));
    CHECK_EQ(store.stats().pending_blocks, 1);
    store.check();
    store.retire(1);
    CHECK_EQ(store.stats().clean_blocks, 4);
    store.check();
}

TEST(all_shorter_holders_copy_while_an_ended_one_is_read) {
    EndedLongOne store({2, 3});
    CHECK_EQ(calls::reserve(store, {3, 2}, {6, 6}).counts().copies, 2);
    CHECK_EQ(store.stats().pending_blocks, 1);
    store.check();
}

TEST(what_nobody_reads_any_more_is_written_in_place) {
    EndedLongOne store({2});
    store.retire(1);
    CHECK_EQ(calls::append(store, {2}, {1}).counts().copies, 0);
    store.check();
    EndedLongOne as_long(Ids{});
    calls::admit(as_long, 2, 6);
    calls::append(as_long, {2}, {6});
    calls::fork(as_long, 2, {3});
    as_long.free(Ids{2}, as_long.last_step());
    CHECK_EQ(calls::append(as_long, {3}, {1}).counts().copies, 0);  // behind all that is read
    as_long.check();
}
