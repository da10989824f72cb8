// What commit makes findable, and what truncate, forks and writes do to it.
#include "prefix_requests.hpp"

using namespace calls;
using pagedkv::SequenceState;

TEST(only_committed_full_blocks_of_known_tokens_are_found) {
    SequenceStore store(caching(10, 4));
    admit(store, 1, Request{counted(8)});
    append(store, {1}, {8});
    CHECK_EQ(lookup(store, {counted(9)}), 0);
    commit(store, {1}, {7});
    CHECK_EQ(lookup(store, {counted(9)}), 4);
    commit(store, {1}, {8});
    CHECK_EQ(lookup(store, {counted(9)}), 8);
    append(store, {1}, {4});
    commit(store, {1}, {12});
    CHECK_EQ(lookup(store, {counted(13)}), 8);  // nobody said what they are
    commit(store, {1}, {12}, counted(4, 9));
    CHECK_EQ(lookup(store, {counted(13)}), 12);
    append(store, {1}, {4}, counted(4, 13));
    CHECK_EQ(lookup(store, {counted(17)}), 12);  // append does not commit
    commit(store, {1}, {16});
    CHECK_EQ(lookup(store, {counted(17)}), 16);
    store.check();
}

TEST(a_sequence_without_ids_takes_no_part) {
    SequenceStore store(caching(10, 2));
    admit(store, 1, Request{{}}, {6, {}});
    append(store, {1}, {6});
    commit(store, {1}, {6});
    store.free(Ids{1}, std::nullopt);
    CHECK_EQ(store.stats().cached_blocks, 0);
    store.check();
}

TEST(ids_of_a_batch_go_to_their_sequences) {
    SequenceStore store(caching(20, 2));
    for (const SeqId id : {1, 2, 3}) admit(store, id, Request{{}}, {0, {}});
    append(store, {3, 1, 2}, {2, 4, 0}, Int32s{31, 32, 11, 12, 13, 14});
    reserve(store, {2}, {4});
    commit(store, {2, 1, 3}, {4, 4, 2}, Int32s{21, 22, 23, 24});
    CHECK_EQ(lookup(store, {{11, 12, 13, 14, 0}}), 4);
    CHECK_EQ(lookup(store, {{21, 22, 23, 24, 0}}), 4);
    CHECK_EQ(lookup(store, {{31, 32, 0}}), 2);
}

TEST(ids_of_sequences_that_are_not_served_are_left_out) {
    SequenceStore store(caching(4, 2));
    for (const SeqId id : {1, 2}) admit(store, id, Request{{}}, {0, {}});
    const StepPlan plan = append(store, {1, 2}, {4, 6}, counted(10), SequenceStore::Fit::partial);
    CHECK_EQ(plan.counts().served, 1);
    commit(store, {1}, {4});
    CHECK_EQ(lookup(store, {counted(5)}), 4);
    CHECK_EQ(store.sequence(2).known, 0);
    store.check();
}

TEST(writing_over_a_findable_block_makes_what_is_below_unfindable) {
    SequenceStore store(caching(10, 2));
    serve(store, 1, {counted(6)}, false);
    store.truncate(Ids{1}, Ids{1}, true);
    CHECK_EQ(lookup(store, {counted(7)}), 6);  // until somebody writes
    append(store, {1}, {1}, Int32s{77});
    store.check();
    CHECK_EQ(lookup(store, {counted(7)}), 0);
    commit(store, {1}, {2});
    CHECK_EQ(lookup(store, {{1, 77, 3}}), 2);
    append(store, {1}, {4}, counted(4, 3));
    commit(store, {1}, {6});
    CHECK_EQ(lookup(store, {{1, 77, 3, 4, 5, 6, 7}}), 6);
    CHECK_EQ(lookup(store, {counted(7)}), 0);
    store.check();
}

// The ids of a block that truncate cuts come back from the index, wherever the sequence kept its own from.
TEST(a_cut_block_keeps_the_ids_of_its_head) {
    for (std::int64_t length = 0; length < 12; ++length)
        for (const bool keep : {false, true}) {
            SequenceStore store(caching(20, 4));
            serve(store, 1, {counted(13)}, false);
            const auto own = admit(store, 2, Request{counted(13)});  // a hit: its first twelve ids lie in the index only
            CHECK_EQ(own.cached_tokens, 12);
            store.truncate(Ids{2}, Ids{length}, keep);
            store.check();
            CHECK_EQ(store.sequence(2).known, length);
            append(store, {2}, {16 - length}, counted(static_cast<std::int32_t>(16 - length), 500));
            commit(store, {2}, {16});
            store.check();
            Int32s right = counted(static_cast<std::int32_t>(length));
            for (std::int32_t i = 0; i < 17 - length; ++i) right.push_back(500 + i);
            CHECK_EQ(lookup(store, {right}), 16);
            CHECK_EQ(lookup(store, {counted(13)}), 12);
        }
}

TEST(a_cut_under_a_span_ends_publication_there) {
    for (std::int64_t length = 0; length <= 8; ++length) {
        SequenceStore store(caching(20, 4));
        const Request image{counted(9), "", {{5, 7, "cat"}}};
        admit(store, 1, image);
        append(store, {1}, {9});
        store.truncate(Ids{1}, Ids{length}, false);
        append(store, {1}, {12 - length},
               counted(static_cast<std::int32_t>(12 - length), static_cast<std::int32_t>(length) + 1));
        commit(store, {1}, {12});
        const bool cut = length > 4 && length < 8;
        CHECK_EQ(lookup(store, {counted(13)}), cut ? 4 : length == 8 ? 4 : 12);
        CHECK_EQ(lookup(store, image), length == 8 ? 8 : 4);
        store.check();
    }
}

TEST(forks_publish_what_they_share_once) {
    SequenceStore store(caching(20, 2));
    admit(store, 1, Request{counted(4), "a", {{0, 1, "x"}}});
    append(store, {1}, {4});
    fork(store, 1, {2, 3});
    append(store, {1, 2, 3}, {2, 2, 2}, Int32s{51, 52, 51, 52, 53, 54});
    commit(store, {2, 3, 1}, {6, 6, 6});
    store.check();
    const Request one{{1, 2, 3, 4, 51, 52, 0}, "a", {{0, 1, "x"}}}, two{{1, 2, 3, 4, 53, 54, 0}, "a", {{0, 1, "x"}}};
    CHECK_EQ(lookup(store, one), 6);
    CHECK_EQ(lookup(store, two), 6);
    store.free(Ids{2}, std::nullopt);
    CHECK_EQ(lookup(store, one), 6);  // the other copy
    store.free(Ids{1, 3}, std::nullopt);
    CHECK_EQ(store.stats().cached_blocks, 5);
    CHECK_EQ(lookup(store, one), 6);
    store.check();
}

TEST(a_reordered_beam_knows_what_its_parent_knew) {
    SequenceStore store(caching(20, 2));
    admit(store, 1, Request{counted(2), "a"});
    append(store, {1}, {2});
    fork(store, 1, {2});
    append(store, {1, 2}, {1, 1}, Int32s{11, 21});
    reorder(store, {1, 2}, {1, 0});
    append(store, {1, 2}, {1, 1}, Int32s{12, 22});
    admit(store, 3, Request{counted(3), "b"});
    reorder(store, {3, 1}, {1, 1});
    store.check();
    commit(store, {1, 2, 3}, {4, 4, 4});
    CHECK_EQ(lookup(store, {{1, 2, 21, 12, 0}, "a"}), 4);
    CHECK_EQ(lookup(store, {{1, 2, 11, 22, 0}, "a"}), 4);
    CHECK_EQ(lookup(store, {{1, 2, 3, 4, 0}, "b"}), 0);
    store.check();
    store.free(Ids{3, 2, 1}, std::nullopt);
    store.check();
}

TEST(an_unpublished_block_ends_what_its_sequence_publishes) {
    SequenceStore store(caching(20, 2));
    serve(store, 1, {counted(6)}, false);
    store.allocator().unpublish(Ids{entries(store, 1)[1]});
    store.check();
    CHECK_EQ(lookup(store, {counted(7)}), 2);
    append(store, {1}, {2}, Int32s{7, 8});
    commit(store, {1}, {8});
    store.check();
    CHECK(!store.allocator().published(entries(store, 1)[3]));
    CHECK_EQ(lookup(store, {counted(9)}), 2);
    CHECK_THROWS(SequenceState, store.allocator().publish(Ids{entries(store, 1)[1]}));
    serve(store, 2, {counted(8)}, false);
    CHECK_EQ(lookup(store, {counted(9)}), 8);
    store.check();
}
