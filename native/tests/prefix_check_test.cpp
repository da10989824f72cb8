// check() of the index names damage that is planted: a recount that cannot fail would be worth nothing.
#include "prefix_chains.hpp"

using namespace calls;
using pagedkv::PrefixIndex;
using Blocks = std::vector<BlockId>;

namespace {

// The parts of an index that only damage may reach: an explicit instantiation may name private members.
template <class Part, auto Member>
struct Open {
    friend auto member(Part) { return Member; }
};
#define OPEN(Part, name)          \
    struct Part {                 \
        friend auto member(Part); \
    };                            \
    template struct Open<Part, &PrefixIndex::name>
OPEN(Runs, runs_);
OPEN(Places, places_);
OPEN(Tokens, tokens_);
OPEN(Buckets, buckets_);
OPEN(Nodes, nodes_);
OPEN(FreeRuns, num_free_runs_);
#undef OPEN

template <class Part>
auto& part(Chains& c) {
    return c.index.*member(Part{});
}

// A head of three blocks, of which one has a copy, and two chains below it; salts and digests.
struct Tree : Chains {
    Tree() : Chains(32) {
        salt_a = salt("a");
        cat = digest("cat");
        main = chain(-1, {1, 2, 3}, salt_a);
        copy = add(main[0], 2, salt_a);
        left = chain(main[2], {4, 5}, salt_a);
        right = chain(main[2], {6}, salt_a);
        covered = add(right[0], 7, salt_a, cat);
        check();
    }
    std::int32_t run(BlockId b) { return part<Places>(*this)[static_cast<std::size_t>(b)].run; }
    auto& run_of(BlockId b) { return part<Runs>(*this)[static_cast<std::size_t>(run(b))]; }
    auto& place(BlockId b) { return part<Places>(*this)[static_cast<std::size_t>(b)]; }

    std::int32_t salt_a = 0, cat = 0;
    Blocks main, left, right;
    BlockId copy = 0, covered = 0;
};

template <class Damage>
void found(Damage damage) {
    Tree tree;
    damage(tree);
    CHECK_THROWS(pagedkv::Error, tree.check());
}

}  // namespace

TEST(check_finds_blocks_that_are_not_what_the_index_says) {
    found([](Tree& t) { t.pool.lower_fill(t.main[1], 1); });
    found([](Tree& t) { t.pool.withdraw(t.copy); });
    found([](Tree& t) { t.pool.withdraw(t.main[0]); });
    found([](Tree& t) { t.pool.mark_published(t.pool.take(), false); });
    found([](Tree& t) { t.pool.mark_published(t.covered, false); });
    found([](Tree& t) { t.pool.mark_published(t.left[0], true); });
    found([](Tree& t) { part<Tokens>(t)[static_cast<std::size_t>(t.copy) * 2] = 99; });
    found([](Tree& t) { part<Tokens>(t)[static_cast<std::size_t>(t.main[0]) * 2 + 1] = 99; });
}

TEST(check_finds_broken_places_and_rings) {
    found([](Tree& t) { t.place(t.main[1]).run = t.run(t.left[0]); });
    found([](Tree& t) { t.place(t.main[2]).column_extra ^= 1; });
    found([](Tree& t) { t.place(t.copy).column_extra ^= 16; });
    found([](Tree& t) { t.place(t.copy).prev = t.copy; });
    found([](Tree& t) { t.place(t.main[1]).next = t.main[1]; });
    found([](Tree& t) { t.place(t.copy).next = t.left[0]; });
}

TEST(check_finds_broken_runs) {
    found([](Tree& t) { --t.run_of(t.left[0]).length; });
    found([](Tree& t) { t.run_of(t.left[0]).length = 0; });
    found([](Tree& t) { t.run_of(t.left[0]).limit = 1; });
    found([](Tree& t) { t.run_of(t.left[0]).limit = PrefixIndex::kRun + 1; });
    found([](Tree& t) { t.run_of(t.left[0]).parent = t.run(t.right[0]); });
    found([](Tree& t) { t.run_of(t.left[0]).hash ^= 1; });
    found([](Tree& t) { t.run_of(t.left[0]).salt = 0; });
    found([](Tree& t) { t.run_of(t.covered).special = 0; });
    found([](Tree& t) { std::swap(t.run_of(t.left[0]).blocks[0], t.run_of(t.left[0]).blocks[1]); });
    found([](Tree& t) {
        auto& first = t.run_of(t.main[0]).child;
        first = part<Runs>(t)[static_cast<std::size_t>(first)].next;
    });
}

TEST(check_finds_broken_counts_and_buckets) {
    found([](Tree& t) { ++part<Nodes>(t); });
    found([](Tree& t) { ++part<FreeRuns>(t); });
    found([](Tree& t) {
        for (int i = 0; i < 8; ++i) part<Buckets>(t)[static_cast<std::size_t>(i)] = -1;
        for (int i = 8; i < 16; ++i) part<Buckets>(t)[static_cast<std::size_t>(i)] = -1;
    });
    found([](Tree& t) { t.index.salts().hold(t.salt_a); });
    found([](Tree& t) { t.index.digests().hold(t.cat); });
    found([](Tree& t) { t.index.digests().release(t.cat); });
    found([](Tree& t) { t.index.salts().intern("somebody's"), t.salts_held.push_back(0); });
}
