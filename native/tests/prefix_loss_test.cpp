// How contents go: the last copy of one takes with it what nobody could reach any more, and nothing else.
#include <set>

#include "pagedkv/cache_events.hpp"
#include "prefix_chains.hpp"

using namespace calls;
using pagedkv::BlockState;
using pagedkv::EventKind;
using pagedkv::PrefixIndex;
using Blocks = std::vector<BlockId>;

namespace {

constexpr std::int32_t kRun = PrefixIndex::kRun;
constexpr std::int32_t kLong = 2 * kRun + 3;

Blocks published(const Chains& c) {
    Blocks all;
    for (BlockId b = 0; b < c.pool.total(); ++b)
        if (c.pool.published(b)) all.push_back(b);
    return all;
}

}  // namespace

TEST(a_lost_content_takes_what_is_below_and_nothing_else) {
    for (const bool constant_hash : {false, true})
        for (std::int32_t parting = 1; parting < kLong; ++parting)
            for (const std::int32_t lost : {0, 1, parting - 1, parting, kRun - 1, kRun, kLong - 1}) {
                Chains c(3 * kLong, 2, constant_hash);
                const Blocks other = c.chain(-1, names(500, 3));
                const Blocks main = c.chain(-1, names(1, kLong));
                const Blocks side = c.chain(main[static_cast<std::size_t>(parting) - 1], names(100, kRun));
                c.lose(main[static_cast<std::size_t>(lost)]);
                c.check();
                const bool side_stays = lost >= parting;
                const Blocks kept = head(main, static_cast<std::size_t>(lost));
                CHECK_EQ(c.match(names(1, kLong)), kept);
                CHECK_EQ(c.match(joined(names(1, parting), names(100, kRun))),
                         side_stays ? joined(head(main, static_cast<std::size_t>(parting)), side) : kept);
                CHECK_EQ(c.match(names(500, 3)), other);
                CHECK_EQ(published(c).size(), 3 + kept.size() + (side_stays ? side.size() : 0));
            }
}

TEST(a_content_stays_until_its_last_copy_is_lost) {
    for (const int order : {0, 1, 2}) {
        Chains c(20);
        const Blocks copies = {c.add(-1, 1), c.add(-1, 1), c.add(-1, 1)};
        const BlockId below = c.add(copies[1], 2);
        for (const int i : {0, 1, 2}) {
            CHECK_EQ(c.match({1, 2}).size(), std::size_t{2});
            CHECK_EQ(c.match({1, 2})[1], below);
            c.lose(copies[static_cast<std::size_t>((i + order) % 3)]);
            c.check();
        }
        CHECK_EQ(published(c), Blocks{});
        CHECK_EQ(c.match({1, 2}), Blocks{});
    }
}

TEST(all_copies_below_a_lost_content_go) {
    Chains c(20);
    const Blocks one = c.chain(-1, {1, 2, 3}), two = c.chain(one[0], {2, 3}), three = c.chain(one[1], {3, 4});
    c.lose(one[0]);
    c.check();
    CHECK_EQ(published(c), Blocks{});
}

TEST(blocks_that_go_are_clean_with_the_lowest_id_on_top) {
    Chains c(8);
    // The tree is built so that the order of ids is not the order of the tree.
    const Blocks all = {c.pool.take(), c.pool.take(), c.pool.take(), c.pool.take(), c.pool.take(), c.pool.take()};
    const auto publish = [&](BlockId parent, BlockId b, std::int32_t name) {
        c.pool.raise_fill(b, 2);
        c.index.publish(parent, 0, b, c.tokens({name}).data(), 0);
    };
    publish(-1, 3, 1);
    publish(3, 5, 2);
    publish(5, 0, 3);
    publish(3, 4, 4);
    publish(4, 2, 5);
    publish(4, 1, 6);
    c.pool.release(5, 0);
    c.pool.release(1, 0);
    c.pool.release(4, 0);
    c.pool.release(2, 0);
    CHECK_EQ(c.pool.cached(), 4);
    c.lose(3);
    c.check();
    CHECK_EQ(c.pool.cached(), 0);
    CHECK(c.pool.state(3) == BlockState::in_use);
    CHECK(!c.pool.published(0));
    CHECK_EQ(allocate(c.pool, 4), (Blocks{1, 2, 4, 5}));
}

TEST(evicting_a_content_frees_what_is_below_it_before_the_block_is_handed_out) {
    Chains c(3);
    const Blocks all = c.chain(-1, {1, 2, 3});
    c.pool.release(all[0], 0);  // the head is the oldest: everything goes with it
    c.pool.release(all[2], 0);
    c.pool.release(all[1], 0);
    CHECK_EQ(c.pool.take(), all[0]);
    c.check();
    CHECK_EQ(c.pool.evictions(), 1);
    CHECK_EQ(c.pool.clean(), 2);
    CHECK_EQ(c.pool.take(), all[1]);
    CHECK_EQ(c.pool.take(), all[2]);
    CHECK_EQ(c.pool.evictions(), 1);
}

TEST(a_pending_block_that_goes_is_empty_when_its_step_retires) {
    Chains c(4);
    const Blocks all = c.chain(-1, {1, 2});
    c.pool.release(all[1], 5);
    CHECK_EQ(c.pool.fill(all[1]), 2);
    c.lose(all[0]);
    CHECK(c.pool.state(all[1]) == BlockState::pending);
    CHECK_EQ(c.pool.fill(all[1]), 0);
    c.pool.retire(5);
    CHECK(c.pool.state(all[1]) == BlockState::clean);
    c.check();
}

// A run that lost its end hangs what comes next below itself: the serials of the nodes that went stay theirs.
TEST(a_run_that_lost_its_end_goes_on_in_another_one) {
    for (std::int32_t lost = 1; lost < kRun; ++lost) {
        Chains c(100);
        const auto at = static_cast<std::size_t>(lost);
        const Blocks main = c.chain(-1, names(1, kRun));
        c.lose(main[at]);
        const Blocks again = c.chain(main[at - 1], names(1 + lost, kLong - lost));
        c.check();
        CHECK_EQ(c.match(names(1, kLong)), joined(head(main, at), again));
        const Blocks side = c.chain(main[0], {99});
        c.check();
        CHECK_EQ(c.match({1, 99}), joined(head(main, 1), side));
        CHECK_EQ(c.match(names(1, kLong)), joined(head(main, at), again));
    }
}

TEST(clear_forgets_everything) {
    for (const bool constant_hash : {false, true}) {
        Chains c(100, 2, constant_hash);
        const std::int32_t salt = c.salt("a"), digest = c.digest("d");
        const Blocks main = c.chain(-1, names(1, kLong)), salted = c.chain(-1, names(1, 4), salt);
        c.chain(main[5], names(50, 4));
        c.chain(main[5], names(50, 4));
        c.add(salted[1], 9, salt, digest);
        for (const BlockId b : published(c)) c.pool.release(b, 0);
        c.index.clear();
        c.check();
        CHECK_EQ(published(c), Blocks{});
        CHECK_EQ(c.match(names(1, kLong)), Blocks{});
        CHECK_EQ(c.pool.cached(), 0);
        CHECK_EQ(allocate(c.pool, 3), (Blocks{0, 1, 2}));
        CHECK_EQ(c.index.salts().holders(static_cast<std::size_t>(salt)), 1);
        c.index.clear();
        c.check();
    }
}

// Random trees in a small pool, every block of which comes back again and again: what is found is what a list of all
// contents says, and no serial ever means two contents.
TEST(serials_are_never_given_again) {
    for (const bool constant_hash : {false, true}) {
        Chains c(24, 1, constant_hash);
        pagedkv::CacheEvents events(1 << 20);
        c.index.set_events(&events);
        harness::Random random(constant_hash ? 1 : 2);
        std::vector<Int32s> content(24);  // by block, its chain
        std::map<std::int64_t, Int32s> ever;
        std::set<std::int64_t> now;
        std::int64_t stored = 0;
        for (int i = 0; i < 30'000; ++i) {
            if (const BlockId b = static_cast<BlockId>(harness::below(random, 24)); c.pool.published(b)) {
                if (harness::below(random, 4) == 0) c.lose(b);
            } else {
                // Below a random findable block, or as a first one; mostly straight on.
                BlockId parent = static_cast<BlockId>(harness::below(random, 25)) - 1;
                if (parent >= 0 && !c.pool.published(parent)) continue;
                const auto name = static_cast<std::int32_t>(harness::below(random, 12) / 10);
                if (c.pool.state(b) != BlockState::in_use) {
                    const BlockId taken = c.pool.take();
                    content[static_cast<std::size_t>(taken)] = {};
                    if (taken != b) continue;
                }
                c.pool.raise_fill(b, 1);
                c.index.publish(parent, 0, b, &name, 0);
                content[static_cast<std::size_t>(b)] =
                    joined(parent >= 0 ? content[static_cast<std::size_t>(parent)] : Int32s{}, {name});
                const Int32s& chain = content[static_cast<std::size_t>(b)];
                CHECK_EQ(c.match(chain).size(), chain.size());
            }
            const pagedkv::EventBatch batch = events.drain([&] { c.index.report_all(); });
            for (std::size_t k = 0; k < batch.kinds.size(); ++k) {
                const std::int64_t serial = batch.serials[k];
                if (batch.kinds[k] == static_cast<int>(EventKind::removed)) CHECK_EQ(now.erase(serial), std::size_t{1});
                if (batch.kinds[k] != static_cast<int>(EventKind::stored)) continue;
                CHECK(now.insert(serial).second);
                if (i > 0) CHECK(ever.emplace(serial, content[static_cast<std::size_t>(batch.blocks[k])]).second);
                ++stored;
            }
            if (i % 64 == 0) c.check();
        }
        CHECK(stored > 1000);
        std::set<Int32s> contents;
        for (const BlockId b : published(c)) contents.insert(content[static_cast<std::size_t>(b)]);
        CHECK_EQ(now.size(), contents.size());
    }
}
