// The record of what became findable and what ceased to be: when it begins, when it is given up, what it says.
#include "pagedkv/cache_events.hpp"

#include "prefix_chains.hpp"

using namespace calls;
using pagedkv::CacheEvents;
using pagedkv::EventBatch;
using pagedkv::EventKind;
using Blocks = std::vector<BlockId>;
using Int64s = std::vector<std::int64_t>;

namespace {

constexpr auto kStored = static_cast<std::int32_t>(EventKind::stored), kRemoved = static_cast<std::int32_t>(EventKind::removed),
               kCleared = static_cast<std::int32_t>(EventKind::cleared);

EventBatch nothing_there(CacheEvents& events) {
    return events.drain([] {});
}

// An index whose events somebody follows.
struct Followed : Chains {
    explicit Followed(std::int64_t most = 100) : Chains(20), events(most) { index.set_events(&events); }
    EventBatch drain() {
        return events.drain([this] { index.report_all(); });
    }
    CacheEvents events;
};

}  // namespace

TEST(nothing_is_recorded_before_the_first_drain) {
    CacheEvents events(10);
    const Int32s tokens = {1};
    for (int i = 0; i < 100; ++i) events.stored(0, 16, 0, tokens, "");
    events.removed(0, 16);
    events.cleared();
    CHECK(!events.following());
    CHECK_EQ(nothing_there(events).kinds, Int32s{kCleared});
    CHECK(events.following());
    CHECK_EQ(nothing_there(events).kinds, Int32s{});
}

TEST(events_come_in_order_with_all_their_columns) {
    CacheEvents events(10);
    nothing_there(events);
    events.stored(3, 16, 0, Int32s{7, 8}, "");
    events.stored(4, 17, 16, Int32s{9, 10}, "a");
    events.removed(3, 16);
    const EventBatch batch = nothing_there(events);
    CHECK_EQ(batch.kinds, (Int32s{kStored, kStored, kRemoved}));
    CHECK_EQ(batch.blocks, (Int32s{3, 4, 3}));
    CHECK_EQ(batch.serials, (Int64s{16, 17, 16}));
    CHECK_EQ(batch.parents, (Int64s{0, 16, 0}));
    CHECK_EQ(batch.tokens, (Int32s{7, 8, 9, 10}));
    CHECK_EQ(batch.token_starts, (Int64s{0, 2, 4}));
    CHECK_EQ(batch.salt_digests, (Int64s{0, pagedkv::salt_digest("a"), 0}));
}

TEST(salt_digests_are_equal_in_all_processes) {
    CHECK_EQ(pagedkv::salt_digest(""), 0);
    CHECK_EQ(static_cast<std::uint64_t>(pagedkv::salt_digest("a")), 0xaf63dc4c8601ec8dULL);
    CHECK(pagedkv::salt_digest(std::string("\0", 1)) != 0);
    CHECK(pagedkv::salt_digest("ab") != pagedkv::salt_digest("ba"));
}

TEST(a_record_that_nobody_reads_is_given_up_at_its_bound) {
    CacheEvents events(5);
    nothing_there(events);
    for (int i = 0; i < 5; ++i) events.removed(0, 1);
    CHECK(events.following());
    CHECK_EQ(nothing_there(events).kinds.size(), std::size_t{5});
    for (int i = 0; i < 6; ++i) events.removed(0, 1);
    CHECK(!events.following());
    events.removed(0, 1);
    const EventBatch again = nothing_there(events);
    CHECK_EQ(again.kinds, Int32s{kCleared});
    CHECK_EQ(again.blocks, Int32s{-1});
    CHECK(events.following());
}

TEST(cleared_makes_what_was_before_it_superfluous) {
    CacheEvents events(5);
    nothing_there(events);
    for (int i = 0; i < 3; ++i) events.removed(0, 1);
    events.cleared();
    events.removed(7, 32);
    CHECK_EQ(nothing_there(events).kinds, (Int32s{kCleared, kRemoved}));
}

// However many there are: the bound is for what nobody reads.
TEST(the_first_answer_holds_everything_parents_first) {
    Followed c(4);
    const std::int32_t salt = c.salt("a");
    const Blocks main = c.chain(-1, {1, 2, 3, 4}), left = c.chain(main[1], {5, 6}), right = c.chain(main[1], {7});
    const Blocks deep = c.chain(left[0], {8}), salted = c.chain(-1, {1, 2}, salt);
    c.add(main[0], 2);  // a copy is no content of its own
    const EventBatch batch = c.drain();
    CHECK_EQ(batch.kinds.size(), std::size_t{11});
    CHECK_EQ(batch.kinds[0], kCleared);
    std::map<std::int64_t, Int32s> chains = {{0, {}}};
    std::map<Int32s, std::int64_t> found;
    for (std::size_t i = 1; i < batch.kinds.size(); ++i) {
        CHECK_EQ(batch.kinds[i], kStored);
        CHECK(chains.contains(batch.parents[i]));
        const std::int32_t name = batch.tokens[static_cast<std::size_t>(batch.token_starts[i])];
        chains[batch.serials[i]] = joined(chains.at(batch.parents[i]), {name});
        Int32s key = chains.at(batch.serials[i]);
        if (batch.salt_digests[i] != 0) key.push_back(-1);
        CHECK(found.emplace(key, batch.blocks[i]).second);
    }
    CHECK_EQ(found.at({1, 2, 3, 4}), main[3]);
    CHECK_EQ(found.at({1, 2, 5, 8}), deep[0]);
    CHECK_EQ(found.at({1, 2, 7}), right[0]);
    CHECK_EQ(found.at({1, 2, -1}), salted[1]);
    CHECK_EQ(c.drain().kinds, Int32s{});
}

TEST(one_event_a_content_and_not_a_copy) {
    Followed c;
    c.drain();
    const BlockId first = c.add(-1, 1), below = c.add(first, 2), copy = c.add(-1, 1);
    const EventBatch stored = c.drain();
    CHECK_EQ(stored.kinds, (Int32s{kStored, kStored}));
    CHECK_EQ(stored.blocks, (Int32s{first, below}));
    CHECK_EQ(stored.parents, (Int64s{0, stored.serials[0]}));
    CHECK_EQ(stored.tokens, (Int32s{1, 1, 2, 2}));
    c.lose(first);
    CHECK_EQ(c.drain().kinds, Int32s{});
    c.lose(copy);
    const EventBatch removed = c.drain();
    CHECK_EQ(removed.kinds, (Int32s{kRemoved, kRemoved}));
    CHECK_EQ(removed.serials, (Int64s{stored.serials[1], stored.serials[0]}));  // children first
    CHECK_EQ(removed.blocks, (Int32s{below, copy}));
}

TEST(a_content_that_comes_again_has_another_serial) {
    Followed c;
    c.drain();
    const Blocks all = c.chain(-1, {1, 2, 3});
    const EventBatch first = c.drain();
    c.lose(all[1]);
    c.drain();
    c.chain(all[0], {2, 3});
    const EventBatch again = c.drain();
    CHECK_EQ(again.parents, (Int64s{first.serials[0], again.serials[0]}));
    for (const std::int64_t serial : again.serials)
        CHECK(std::find(first.serials.begin(), first.serials.end(), serial) == first.serials.end());
}

// A split moves contents to other runs; what they are called stays.
TEST(serials_stay_through_splits) {
    Followed c(4);
    c.drain();
    const Blocks main = c.chain(-1, {1, 2, 3, 4});
    const EventBatch stored = c.drain();
    const BlockId side = c.add(main[1], 9), other = c.add(main[0], 8), below = c.add(main[3], 7);
    const EventBatch more = c.drain();
    CHECK_EQ(more.blocks, (Int32s{side, other, below}));
    CHECK_EQ(more.parents, (Int64s{stored.serials[1], stored.serials[0], stored.serials[3]}));
    for (const BlockId b : {main[3], main[2]}) c.lose(b);
    CHECK_EQ(c.drain().serials, (Int64s{more.serials[2], stored.serials[3], stored.serials[2]}));
}

TEST(forgetting_everything_is_one_event) {
    Followed c;
    const Blocks all = c.chain(-1, {1, 2, 3});
    c.drain();
    c.index.clear();
    const EventBatch batch = c.drain();
    CHECK_EQ(batch.kinds, Int32s{kCleared});
    c.chain(-1, {1});
    CHECK_EQ(c.drain().kinds, Int32s{kStored});
}
