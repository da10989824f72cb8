// The four states of a block, and the order in which blocks are handed out.
#include "pagedkv/block_allocator.hpp"

#include <limits>

#include "harness.hpp"
#include "pagedkv/errors.hpp"
#include "store_calls.hpp"

using calls::allocate;
using calls::Ids;
using pagedkv::BlockAllocator;
using pagedkv::BlockId;
using pagedkv::BlockState;
using pagedkv::InvalidArgument;
using pagedkv::NeverFits;
using pagedkv::OutOfBlocks;
using pagedkv::SequenceState;

namespace {

using Blocks = std::vector<BlockId>;

// A block that one page table holds, with some tokens in it, as the sequence store makes it.
BlockId held(BlockAllocator& pool, std::int32_t tokens, bool published = false) {
    const BlockId b = pool.take();
    pool.raise_fill(b, tokens);
    if (published) pool.publish(Ids{b});
    return b;
}

void counts(const BlockAllocator& pool, std::int32_t clean, std::int32_t cached, std::int32_t in_use, std::int32_t pending) {
    CHECK_EQ(pool.clean(), clean);
    CHECK_EQ(pool.cached(), cached);
    CHECK_EQ(pool.in_use(), in_use);
    CHECK_EQ(pool.pending(), pending);
    CHECK_EQ(pool.available(), clean + cached);
    CHECK_EQ(clean + cached + in_use + pending, pool.total());
}

void check(BlockAllocator& pool) {
    pool.note_peak();  // take() leaves that to the operation that ends
    std::vector<std::int32_t> table_refs(static_cast<std::size_t>(pool.total()));
    for (BlockId b = 0; b < pool.total(); ++b) table_refs[static_cast<std::size_t>(b)] = pool.refs(b) - pool.pins(b);
    pool.check(table_refs);
}

}  // namespace

TEST(a_new_pool_hands_out_block_0_first) {
    BlockAllocator pool(5, 0, 0);
    counts(pool, 5, 0, 0, 0);
    CHECK_EQ(allocate(pool, 3), (Blocks{0, 1, 2}));
    CHECK_EQ(allocate(pool, 2), (Blocks{3, 4}));
    counts(pool, 0, 0, 5, 0);
    CHECK_EQ(pool.peak_allocated(), 5);
    check(pool);
}

TEST(what_was_freed_last_comes_first) {
    BlockAllocator pool(6, 0, 0);
    allocate(pool, 4);
    pool.free(Ids{1});
    pool.free(Ids{3});
    CHECK_EQ(allocate(pool, 3), (Blocks{3, 1, 4}));  // then the blocks never used
    check(pool);
}

TEST(within_one_free_the_first_named_comes_first) {
    BlockAllocator pool(4, 0, 0);
    allocate(pool, 4);
    pool.free(Ids{2, 0, 3});
    CHECK_EQ(allocate(pool, 3), (Blocks{2, 0, 3}));
}

TEST(clean_blocks_go_before_cached_ones_and_the_oldest_release_is_evicted_first) {
    BlockAllocator pool(5, 0, 0);
    Blocks b;
    for (int i = 0; i < 4; ++i) b.push_back(held(pool, 2, i != 1));
    for (const int i : {2, 0, 1, 3}) pool.release(b[static_cast<std::size_t>(i)], 0);
    counts(pool, 2, 3, 0, 0);
    CHECK_EQ(pool.fill(b[2]), 2);
    check(pool);
    CHECK_EQ(allocate(pool, 2), (Blocks{1, 4}));  // the clean ones; nothing evicted yet
    CHECK_EQ(pool.evictions(), 0);
    CHECK_EQ(allocate(pool, 3), (Blocks{2, 0, 3}));
    CHECK_EQ(pool.evictions(), 3);
    for (const BlockId block : b) {
        CHECK_EQ(pool.fill(block), 0);
        CHECK(!pool.published(block));
    }
    check(pool);
}

TEST(a_cached_block_comes_back_with_its_content_and_moves_to_the_end_of_the_order) {
    BlockAllocator pool(3, 0, 0);
    for (int i = 0; i < 3; ++i) held(pool, 4, true);
    for (BlockId b = 0; b < 3; ++b) pool.release(b, 0);
    pool.increment_ref(Ids{1, 1});
    CHECK(pool.state(1) == BlockState::in_use);
    CHECK_EQ(pool.refs(1), 2);
    CHECK_EQ(pool.pins(1), 2);
    CHECK_EQ(pool.fill(1), 4);
    CHECK_EQ(pool.stored_tokens(), 4);
    CHECK_EQ(pool.pinned_only(), 1);
    counts(pool, 0, 2, 1, 0);
    check(pool);
    pool.free(Ids{1, 1});
    counts(pool, 0, 3, 0, 0);
    CHECK_EQ(allocate(pool, 3), (Blocks{0, 2, 1}));
}

TEST(unpublished_cached_blocks_become_clean) {
    BlockAllocator pool(3, 0, 0);
    held(pool, 4, true);
    held(pool, 3, true);
    pool.release(0, 0);
    pool.release(1, 0);
    pool.unpublish(Ids{0});
    counts(pool, 2, 1, 0, 0);
    CHECK_EQ(pool.fill(0), 0);
    check(pool);
    CHECK_THROWS(SequenceState, pool.unpublish(Ids{1, 0}));  // 0 is clean now; 1 stays cached
    counts(pool, 2, 1, 0, 0);
    CHECK_THROWS(SequenceState, pool.publish(Ids{1}));
    CHECK_THROWS(SequenceState, pool.increment_ref(Ids{1, 0}));
    CHECK_EQ(pool.refs(1), 0);
    check(pool);
}

TEST(a_write_by_the_sole_holder_unpublishes) {
    BlockAllocator pool(2, 0, 0);
    held(pool, 4, true);
    CHECK(!pool.plainly_writable(0));
    pool.unpublish_for_write(0, 3);
    CHECK(pool.plainly_writable(0));
    CHECK_EQ(pool.fill(0), 3);
    CHECK_EQ(pool.stored_tokens(), 3);
    pool.release(0, 0);
    counts(pool, 2, 0, 0, 0);
    check(pool);
}

TEST(pins_are_not_the_references_of_a_page_table) {
    BlockAllocator pool(3, 0, 0);
    held(pool, 1);
    allocate(pool, 1);
    CHECK_THROWS(SequenceState, pool.free(Ids{0}));     // a table holds it, nobody pinned it
    CHECK_THROWS(SequenceState, pool.free(Ids{1, 1}));  // one pin, two drops
    CHECK_THROWS(SequenceState, pool.free(Ids{2}));     // clean
    CHECK_EQ(pool.pins(1), 1);
    CHECK_EQ(pool.refs(0), 1);
    check(pool);
    pool.increment_ref(Ids{0});
    CHECK(!pool.plainly_writable(0));
    pool.release(0, 0);  // the table lets go: the pin keeps the block and its tokens
    CHECK(pool.state(0) == BlockState::in_use);
    CHECK_EQ(pool.pinned_only(), 2);
    CHECK_EQ(pool.fill(0), 1);
    pool.free(Ids{0, 1});
    CHECK_THROWS(SequenceState, pool.free(Ids{0}));
    counts(pool, 3, 0, 0, 0);
    check(pool);
}

TEST(requests_that_cannot_be_met) {
    BlockAllocator pool(4, 0, 0);
    CHECK_THROWS(InvalidArgument, pool.require(-1));
    CHECK_THROWS(NeverFits, pool.require(5));
    CHECK_THROWS(NeverFits, pool.require(std::numeric_limits<std::int64_t>::max()));
    pool.require(4);
    held(pool, 1);
    pool.release(0, 0);
    allocate(pool, 3);
    CHECK_THROWS(OutOfBlocks, pool.require(2));
    pool.require(1);
    for (const std::int64_t id : {std::int64_t{-1}, std::int64_t{4}, std::int64_t{1} << 32}) {
        CHECK_THROWS(InvalidArgument, pool.checked(id));
        CHECK_THROWS(InvalidArgument, pool.free(Ids{0, id}));
        CHECK_THROWS(InvalidArgument, pool.increment_ref(Ids{0, id}));
        CHECK_THROWS(InvalidArgument, pool.publish(Ids{0, id}));
        CHECK_THROWS(InvalidArgument, pool.unpublish(Ids{0, id}));
    }
    CHECK_EQ(pool.refs(0), 1);
    check(pool);
}

TEST(pools_that_cannot_be) {
    const std::int64_t most = std::numeric_limits<std::int32_t>::max();
    for (const std::int64_t n : {std::int64_t{0}, std::int64_t{-1}, most, std::int64_t{1} << 32, std::int64_t{1} << 62})
        CHECK_THROWS(InvalidArgument, BlockAllocator(n, 0, 0));
    CHECK_THROWS(InvalidArgument, BlockAllocator(1, -1, 0));
}

TEST(addresses_are_64_bits) {
    BlockAllocator pool(1'000'000, 0, 0);
    CHECK_THROWS(SequenceState, pool.address(0));
    pool.bind_pool(0x7f00'0000'0000ULL, std::int64_t{2} << 20);
    CHECK_EQ(pool.address(999'999), 0x7f00'0000'0000ULL + 999'999ULL * (2ULL << 20));
    CHECK_THROWS(InvalidArgument, pool.bind_pool(0, -1));
    CHECK_EQ(pool.block_size_bytes(), std::int64_t{2} << 20);
}
