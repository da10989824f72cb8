// The index by itself: what a look-up finds, whatever shape the tree of contents has. prefix_loss_test.cpp: how it goes.
#include "prefix_chains.hpp"

using namespace calls;
using pagedkv::Extra;
using pagedkv::Interner;
using pagedkv::PrefixIndex;
using Blocks = std::vector<BlockId>;

namespace {
constexpr std::int32_t kRun = PrefixIndex::kRun;
constexpr std::int32_t kLong = 3 * kRun + 2;  // a chain over several runs, the last one short
}  // namespace

TEST(an_empty_index_finds_nothing) {
    Chains c(4);
    CHECK_EQ(c.match({1, 2}), Blocks{});
    c.check();
}

TEST(the_longest_known_head_is_found) {
    for (const bool constant_hash : {false, true}) {
        Chains c(kLong, 3, constant_hash);
        const Blocks all = c.chain(-1, names(1, kLong));
        c.check();
        for (std::int32_t n = 0; n <= kLong; ++n) {
            const auto count = static_cast<std::size_t>(n);
            CHECK_EQ(c.match(names(1, n)), head(all, count));
            CHECK_EQ(c.match(names(1, kLong), 0, {}, n), head(all, count));
            Int32s other = names(1, kLong);
            if (n < kLong) other[count] = -1;
            CHECK_EQ(c.match(other), head(all, count));
        }
        CHECK_EQ(c.match(joined(names(1, kLong), {7})), all);
        CHECK_EQ(c.match(names(2, kLong)), Blocks{});
    }
}

TEST(one_token_at_any_place_makes_another_content) {
    for (const std::int32_t size : {1, 2, 15, 16, 17, 64}) {
        Chains c(3, size);
        const Blocks all = c.chain(-1, {1, 2});
        const Int32s right = c.tokens({1, 2});
        Blocks out(2);
        for (std::size_t i = 0; i < right.size(); ++i)
            for (const std::int32_t other : {0, 3, -1, 1 << 30}) {
                Int32s tokens = right;
                tokens[i] = other;
                const std::int64_t found = c.index.match({0, tokens, {}}, 2, out.data());
                CHECK_EQ(found, static_cast<std::int64_t>(i) / size);
            }
        CHECK_EQ(c.index.match({0, right, {}}, 2, out.data()), 2);
        CHECK_EQ(out, all);
    }
}

// Chains that part at every place: within a run, between two, at both ends.
TEST(a_chain_that_leaves_a_run_in_its_middle_splits_it) {
    for (const bool constant_hash : {false, true})
        for (std::int32_t parting = 0; parting <= kLong; ++parting) {
            Chains c(4 * kLong, 2, constant_hash);
            const auto at = static_cast<std::size_t>(parting);
            const Blocks main = c.chain(-1, names(1, kLong));
            const Blocks side = c.chain(parting > 0 ? main[at - 1] : -1, names(1000, kRun + 2));
            c.check();
            CHECK_EQ(c.match(names(1, kLong)), main);
            CHECK_EQ(c.match(joined(names(1, parting), names(1000, kRun + 2))), joined(head(main, at), side));
            // A third one, through the head that the split made.
            const Blocks third = c.chain(parting > 1 ? main[at - 2] : -1, names(2000, 3));
            c.check();
            CHECK_EQ(c.match(joined(names(1, std::max(0, parting - 1)), names(2000, 3))),
                     joined(head(main, at > 0 ? at - 1 : 0), third));
            CHECK_EQ(c.match(names(1, kLong)), main);
            CHECK_EQ(c.match(joined(names(1, parting), names(1000, kRun + 2))), joined(head(main, at), side));
        }
}

TEST(children_of_a_split_run_stay_below_its_tail) {
    Chains c(100);
    const Blocks main = c.chain(-1, names(1, kRun));
    const Blocks below = c.chain(main.back(), names(50, 3)), beside = c.chain(main.back(), names(60, 3));
    const Blocks side = c.chain(main[4], names(70, 2));
    c.check();
    CHECK_EQ(c.match(joined(names(1, kRun), names(50, 3))), joined(main, below));
    CHECK_EQ(c.match(joined(names(1, kRun), names(60, 3))), joined(main, beside));
    CHECK_EQ(c.match(names(1, kRun)), main);  // nothing beyond the prompt's end is read to choose between them
    CHECK_EQ(c.match(joined(names(1, 5), names(70, 2))), joined(head(main, 5), side));
    CHECK_EQ(c.match(joined(names(1, 5), names(50, 3))), head(main, 5));
    // Both parts go on splitting.
    const Blocks upper = c.chain(main[1], {80}), lower = c.chain(main[8], {90});
    c.check();
    CHECK_EQ(c.match(joined(names(1, 2), {80})), joined(head(main, 2), upper));
    CHECK_EQ(c.match(joined(names(1, 9), {90})), joined(head(main, 9), lower));
    CHECK_EQ(c.match(joined(names(1, kRun), names(60, 3))), joined(main, beside));
}

TEST(a_parent_with_many_children_finds_each) {
    for (const bool constant_hash : {false, true}) {
        Chains c(400, 1, constant_hash);
        const Blocks parents = c.chain(-1, {1, 2});
        Blocks children;
        for (std::int32_t i = 0; i < 150; ++i) children.push_back(c.add(parents[1], 100 + i));
        for (std::int32_t i = 0; i < 150; ++i) c.add(-1, 100 + i);
        c.check();
        for (std::int32_t i = 0; i < 150; ++i)
            CHECK_EQ(c.match({1, 2, 100 + i}), joined(parents, {children[static_cast<std::size_t>(i)]}));
    }
}

TEST(equal_blocks_below_other_parents_are_other_contents) {
    Chains c(20, 2, true);
    const Blocks one = c.chain(-1, {1, 9, 9}), two = c.chain(-1, {2, 9, 9});
    CHECK_EQ(c.match({1, 9, 9, 9}), one);
    CHECK_EQ(c.match({2, 9, 9, 9}), two);
    CHECK_EQ(c.match({9, 9}), Blocks{});
}

TEST(salts_part_what_is_otherwise_equal) {
    for (const bool constant_hash : {false, true}) {
        Chains c(40, 2, constant_hash);
        const std::int32_t a = c.salt("a"), b = c.salt("b");
        const Blocks none = c.chain(-1, names(1, 3)), of_a = c.chain(-1, names(1, 3), a), of_b = c.chain(-1, names(1, 2), b);
        c.check();
        CHECK_EQ(c.match(names(1, 4)), none);
        CHECK_EQ(c.match(names(1, 4), a), of_a);
        CHECK_EQ(c.match(names(1, 4), b), of_b);
        CHECK_EQ(c.match(names(1, 4), Interner::kUnknown), Blocks{});
        // The index holds its salts as long as something lies below them, through splits too.
        c.chain(of_a[0], {7}, a);
        c.index.salts().release(a);
        --c.salts_held[static_cast<std::size_t>(a)];
        c.check();
        CHECK_EQ(c.match({1, 7}, c.index.salts().find("a")).size(), std::size_t{2});
        for (const BlockId block : of_a) c.lose(block);
        c.check();
        CHECK_EQ(c.index.salts().find("a"), Interner::kUnknown);
    }
}

TEST(digests_part_what_is_otherwise_equal) {
    for (const bool constant_hash : {false, true}) {
        Chains c(40, 2, constant_hash);
        const std::int32_t cat = c.digest("cat"), dog = c.digest("dog");
        const BlockId first = c.add(-1, 1), with_cat = c.add(first, 2, 0, cat), with_dog = c.add(first, 2, 0, dog);
        const BlockId plain = c.add(first, 2), below = c.add(with_dog, 3);
        c.check();
        CHECK_EQ(c.match({1, 2, 3}), (Blocks{first, plain}));
        CHECK_EQ(c.match({1, 2, 3}, 0, {{1, cat}}), (Blocks{first, with_cat}));
        CHECK_EQ(c.match({1, 2, 3}, 0, {{1, dog}}), (Blocks{first, with_dog, below}));
        CHECK_EQ(c.match({1, 2, 3}, 0, {{0, cat}, {1, cat}}), Blocks{});
        CHECK_EQ(c.match({1, 2, 3}, 0, {{1, Interner::kUnknown}}), Blocks{first});
        CHECK_EQ(c.match({1, 2, 3}, 0, {{1, dog}, {2, dog}}), (Blocks{first, with_dog}));
        c.lose(with_cat);
        c.check();
        c.lose(first);
        c.check();
        CHECK_EQ(c.match({1, 2, 3}, 0, {{1, dog}}), Blocks{});
    }
}

TEST(the_first_copy_is_found_until_it_is_lost) {
    Chains c(10);
    const Blocks first = c.chain(-1, {1, 2}), second = c.chain(-1, {1, 2}), third = c.chain(first[0], {2, 3});
    c.check();
    CHECK_EQ(c.match({1, 2}), first);
    CHECK_EQ(c.match({1, 2, 3}), (Blocks{first[0], first[1], third[1]}));
    c.lose(first[1]);
    c.check();
    CHECK_EQ(c.match({1, 2, 3}), (Blocks{first[0], third[0], third[1]}));
    c.lose(third[0]);
    CHECK_EQ(c.match({1, 2, 3}), (Blocks{first[0], second[1], third[1]}));
    c.check();
}

TEST(copies_are_known_by_the_run_that_a_split_leaves_them_in) {
    for (std::int32_t parting = 1; parting < kRun; ++parting) {
        Chains c(100);
        const auto at = static_cast<std::size_t>(parting);
        const Blocks main = c.chain(-1, names(1, kRun)), copy = c.chain(-1, names(1, kRun)),
                     again = c.chain(-1, names(1, kRun));
        const Blocks side = c.chain(copy[at - 1], {77, 78});
        c.check();
        CHECK_EQ(c.match(joined(names(1, parting), {77, 78})), joined(head(main, at), side));
        for (const BlockId b : main) c.lose(b);
        c.check();
        CHECK_EQ(c.match(names(1, kRun)), again);
        for (const BlockId b : again) c.lose(b);
        c.check();
        CHECK_EQ(c.match(names(1, kRun)), copy);
        // A copy can carry what lies below it.
        const Blocks more = c.chain(copy.back(), {88});
        CHECK_EQ(c.match(joined(names(1, kRun), {88})), joined(copy, more));
    }
}
