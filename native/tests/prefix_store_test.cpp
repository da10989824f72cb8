// Prefix reuse through the store: what admission takes from the cache and what that costs.
// prefix_publish_test.cpp has how it gets there.
#include "prefix_requests.hpp"

using namespace calls;
using pagedkv::BlockState;
using pagedkv::InvalidArgument;
using pagedkv::NeverFits;
using pagedkv::OutOfBlocks;
using pagedkv::SequenceState;

TEST(a_prompt_finds_what_another_one_left) {
    for (const bool constant_hash : {false, true}) {
        SequenceStore store(caching(8, 4, constant_hash));
        serve(store, 1, {counted(10)});
        CHECK_EQ(store.stats().cached_blocks, 2);
        CHECK_EQ(lookup(store, {counted(10)}), 8);
        const pagedkv::Admission a = admit(store, 2, Request{counted(12)});
        CHECK_EQ(a.cached_tokens, 8);
        CHECK_EQ(entries(store, 2), (Int32s{0, 1, 2}));
        CHECK_EQ(store.sequence(2).table.tokens(), 8);
        CHECK_EQ(store.sequence(2).committed, 8);
        CHECK_EQ(store.sequence(2).known, 12);
        CHECK_EQ(store.stats().cached_blocks, 0);
        CHECK_EQ(store.stats().queried_tokens, 22);
        CHECK_EQ(store.stats().hit_tokens, 8);
        CHECK_EQ(store.stats().stored_tokens, 8);
        CHECK_EQ(store.stats().peak_allocated_blocks, 3);
        store.check();
    }
}

// At least one token of a prompt is left to compute, unless the caller says otherwise.
TEST(a_hit_is_whole_blocks_and_never_all_of_a_prompt) {
    SequenceStore store(caching(8, 4));
    serve(store, 1, {counted(12)});
    const std::int64_t right[] = {0, 0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12};
    for (std::int32_t n = 0; n < 15; ++n) CHECK_EQ(lookup(store, {counted(n)}), right[n]);
    CHECK_EQ(lookup(store, {counted(12)}, 12), 12);
    CHECK_EQ(lookup(store, {counted(12)}, 11), 8);
    CHECK_EQ(lookup(store, {counted(12)}, 1000), 12);
    CHECK_EQ(lookup(store, {counted(12)}, 0), 0);
    CHECK_EQ(lookup(store, {counted(12)}, -5), 0);
    pagedkv::Admission a = admit(store, 2, Request{counted(12)}, {std::nullopt, 12});
    CHECK_EQ(a.cached_tokens, 12);
    CHECK_EQ(entries(store, 2).size(), std::size_t{3});
    a = admit(store, 3, Request{counted(12)}, {std::nullopt, 7});
    CHECK_EQ(a.cached_tokens, 4);
    store.check();
}

TEST(reserve_counts_from_the_first_token) {
    SequenceStore store(caching(8, 4));
    serve(store, 1, {counted(9)});
    CHECK_EQ(admit(store, 2, Request{counted(9)}, {0, {}}).cached_tokens, 8);
    CHECK_EQ(entries(store, 2).size(), std::size_t{2});
    admit(store, 3, Request{counted(9)}, {17, {}});
    CHECK_EQ(entries(store, 3).size(), std::size_t{5});
    store.check();
}

TEST(an_admission_that_does_not_fit_changes_nothing) {
    SequenceStore store(caching(6, 2));
    serve(store, 1, {counted(6)});
    allocate(store.allocator(), 3);  // nothing is clean, three are cached
    CHECK_THROWS(OutOfBlocks, admit(store, 2, Request{counted(7)}));
    CHECK_EQ(store.stats().failed_admissions, 1);
    CHECK_EQ(store.stats().queried_tokens, 6);
    CHECK_EQ(store.stats().hit_tokens, 0);
    try {
        admit(store, 2, Request{counted(7)});
    } catch (const OutOfBlocks& error) {
        CHECK_EQ(error.needed, 1);
        CHECK_EQ(error.available, 0);  // three free ones would come back with their content
    }
    CHECK_EQ(admit(store, 2, Request{counted(7)}, {6, {}}).cached_tokens, 6);  // takes none
    store.check();
}

TEST(the_watermark_spares_whoever_takes_nothing_that_is_free) {
    auto o = caching(6, 2);
    o.watermark = 2;
    SequenceStore store(o);
    serve(store, 1, {counted(6)}, false);
    allocate(store.allocator(), 2);
    CHECK_EQ(admit(store, 2, Request{counted(7)}, {6, {}}).cached_tokens, 6);  // all of it is in use
    CHECK_THROWS(OutOfBlocks, admit(store, 3, Request{counted(7)}));
    store.free(Ids{1, 2}, std::nullopt);
    CHECK_EQ(store.stats().cached_blocks, 3);
    CHECK_THROWS(OutOfBlocks, admit(store, 3, Request{counted(7)}, {6, {}}));  // one free one would be left
    CHECK_EQ(admit(store, 3, Request{counted(4)}, {4, 4}).cached_tokens, 4);   // two are
    store.check();
}

TEST(matched_blocks_are_safe_from_the_eviction_that_follows) {
    SequenceStore store(caching(4, 2));
    serve(store, 1, {counted(4)});       // blocks 0, 1: the oldest
    serve(store, 2, {counted(4, 100)});  // 2, 3
    CHECK_EQ(admit(store, 3, Request{counted(8)}).cached_tokens, 4);
    CHECK_EQ(entries(store, 3), (Int32s{0, 1, 3, 2}));  // the deepest block goes first
    CHECK_EQ(store.stats().evictions, 2);
    CHECK_EQ(lookup(store, {counted(5, 100)}), 0);
    store.check();
}

TEST(pending_blocks_are_found_and_come_back) {
    SequenceStore store(caching(6, 2));
    serve(store, 1, {counted(4)}, false);
    store.free(Ids{1}, 1);
    CHECK_EQ(store.stats().pending_blocks, 2);
    CHECK_EQ(admit(store, 2, Request{counted(5)}).cached_tokens, 4);
    CHECK_EQ(store.stats().pending_blocks, 0);
    store.free(Ids{2}, std::nullopt);  // the step that the first one named still holds them
    CHECK_EQ(store.stats().pending_blocks, 2);
    store.retire(1);
    CHECK_EQ(store.stats().cached_blocks, 2);
    store.check();
}

TEST(salts_and_spans_part_prompts) {
    SequenceStore store(caching(20, 4));
    serve(store, 1, {counted(9), "a", {{2, 7, "cat"}}});
    CHECK_EQ(lookup(store, {counted(9), "a", {{2, 7, "cat"}}}), 8);
    CHECK_EQ(lookup(store, {counted(9), "a", {{2, 6, "cat"}}}), 4);  // the second block has less of it
    CHECK_EQ(lookup(store, {counted(9), "a", {{2, 8, "cat"}}}), 4);
    for (const Request& other :
         {Request{counted(9), "b", {{2, 7, "cat"}}}, Request{counted(9), "", {{2, 7, "cat"}}},
          Request{counted(9), "a", {{2, 7, "dog"}}}, Request{counted(9), "a", {}}, Request{counted(9), "a", {{1, 7, "cat"}}},
          Request{counted(9), "a", {{3, 7, "cat"}}}, Request{counted(9), "a", {{2, 4, "cat"}, {4, 7, "ca"}}}})
        CHECK_EQ(lookup(store, other), 0 + (other.covers.size() == 2 ? 4 : 0));
    // Two spans are not one, though they cover the same tokens by the same digest.
    CHECK_EQ(lookup(store, {counted(9), "a", {{2, 4, "cat"}, {4, 7, "cat"}}}), 4);
    store.check();
}

// One digest that spells out where a span ends and how the next one goes on is not two spans.
TEST(a_digest_cannot_pretend_to_be_two) {
    SequenceStore store(caching(20, 4));
    std::string both = "x";
    for (const std::int64_t number : {1, 2, 0}) both.append(reinterpret_cast<const char*>(&number), sizeof number);
    serve(store, 1, {counted(5), "", {{0, 1, "x"}, {1, 2, "y"}}});
    CHECK_EQ(lookup(store, {counted(5), "", {{0, 1, both + "y"}}}), 0);
    CHECK_EQ(lookup(store, {counted(5), "", {{0, 1, "x"}, {1, 2, "y"}}}), 4);
}

TEST(spans_that_are_none_are_refused) {
    SequenceStore store(caching(20, 4));
    for (const std::vector<pagedkv::Cover>& bad : std::vector<std::vector<pagedkv::Cover>>{{{-1, 2, "x"}},
                                                                                           {{2, 2, "x"}},
                                                                                           {{3, 2, "x"}},
                                                                                           {{0, 10, "x"}},
                                                                                           {{0, 3, "x"}, {2, 4, "y"}},
                                                                                           {{4, 6, "x"}, {0, 2, "y"}}}) {
        CHECK_THROWS(InvalidArgument, admit(store, 1, Request{counted(9), "", bad}));
        CHECK_THROWS(InvalidArgument, lookup(store, Request{counted(9), "", bad}));
    }
    admit(store, 1, Request{counted(9), "", {{0, 4, "x"}, {4, 9, "y"}}});
    store.check();
}

TEST(the_cache_is_forgotten_when_nobody_lives) {
    SequenceStore store(caching(8, 2));
    serve(store, 1, {counted(6)}, false);
    store.allocator().increment_ref(Ids{entries(store, 1)[0]});
    CHECK(!store.reset_prefix_cache());
    CHECK_EQ(lookup(store, {counted(7)}), 6);
    store.free(Ids{1}, std::nullopt);
    CHECK(store.reset_prefix_cache());
    store.check();
    CHECK_EQ(lookup(store, {counted(7)}), 0);
    CHECK_EQ(store.stats().cached_blocks, 0);
    CHECK_EQ(store.stats().evictions, 0);
    CHECK_EQ(allocate(store.allocator(), 3), (Int32s{1, 2, 3}));  // lowest on top; the pinned one stays held
}

TEST(a_store_without_an_index_finds_nothing) {
    SequenceStore store(options(8, 2));
    admit(store, 1, Request{counted(6), "a", {{0, 2, "x"}}});
    append(store, {1}, {6});
    commit(store, {1}, {6});
    CHECK_EQ(lookup(store, {counted(6), "a"}), 0);
    CHECK(store.drain_events().kinds.empty());
    CHECK(!store.reset_prefix_cache());
    store.free(Ids{1}, std::nullopt);
    CHECK(store.reset_prefix_cache());
    CHECK_EQ(store.stats().queried_tokens, 0);
    // Only the number of ids matters then.
    admit(store, 2, 0);
    StepPlan plan;
    store.append(Ids{2}, Ids{3}, SequenceStore::TokenIds{3, nullptr}, SequenceStore::Fit::whole, plan);
    store.commit(Ids{2}, Ids{4}, SequenceStore::TokenIds{1, nullptr});
    CHECK_EQ(store.sequence(2).known, 4);
    store.check();
}

TEST(unread_events_are_bounded_by_the_pool) {
    SequenceStore store(caching(2, 2));
    store.drain_events();
    for (std::int32_t i = 0; i < 4; ++i) {
        serve(store, 1, {counted(2, 10 * i)});
        store.reset_prefix_cache();
        serve(store, 1, {counted(2, 10 * i)});
    }
    CHECK(store.drain_events().kinds.size() <= 8);
    for (std::int32_t i = 0; i < 20; ++i) serve(store, 1, {counted(4, 10 * i)});
    const pagedkv::EventBatch batch = store.drain_events();
    CHECK_EQ(batch.kinds, (Int32s{2, 0, 0}));  // given up, and everything again
}
