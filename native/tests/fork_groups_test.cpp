#include "pagedkv/fork_groups.hpp"

#include <algorithm>
#include <vector>

#include "harness.hpp"

using pagedkv::ForkGroups;

TEST(no_group_has_nothing_in_common) {
    ForkGroups groups;
    CHECK_EQ(groups.common(ForkGroups::kNone), 0);
    groups.shrink(ForkGroups::kNone, 3);
    groups.announce_leaving(ForkGroups::kNone);
    groups.leave(ForkGroups::kNone);
    CHECK_EQ(groups.common(ForkGroups::kNone), 0);
}

TEST(what_is_common_only_shrinks) {
    ForkGroups groups;
    groups.make_room(1);
    const std::int32_t group = groups.open(5);
    CHECK_EQ(groups.members(group), 1);
    CHECK_EQ(groups.common(group), 5);
    groups.join(group);
    CHECK_EQ(groups.members(group), 2);
    groups.shrink(group, 7);
    CHECK_EQ(groups.common(group), 5);
    groups.shrink(group, 5);
    CHECK_EQ(groups.common(group), 5);
    groups.shrink(group, 2);
    CHECK_EQ(groups.common(group), 2);
    groups.leave(group);
    CHECK_EQ(groups.members(group), 1);
    groups.set_common(group, 6);  // the only member says anew
    CHECK_EQ(groups.common(group), 6);
}

TEST(places_of_groups_are_used_again_and_start_anew) {
    ForkGroups groups;
    groups.make_room(1);
    const std::int32_t first = groups.open(4);
    groups.join(first);
    groups.announce_leaving(first);
    groups.announce_leaving(first);
    CHECK(!groups.last_to_leave(first));
    groups.leave(first);
    CHECK(groups.last_to_leave(first));
    CHECK_EQ(groups.take_held_back(first), 1);
    groups.leave(first);
    groups.make_room(1);
    const std::int32_t second = groups.open(9);
    CHECK_EQ(second, first);
    CHECK_EQ(groups.members(second), 1);
    CHECK_EQ(groups.common(second), 9);
    groups.announce_leaving(second);
    CHECK(groups.last_to_leave(second));
    CHECK_EQ(groups.take_held_back(second), 0);
}

// Of the members that leave in one batch only the last drops the common entries; who stays is not counted.
TEST(the_last_of_a_batch_drops_for_those_before_it) {
    ForkGroups groups;
    groups.make_room(1);
    const std::int32_t group = groups.open(3);
    for (int i = 0; i < 4; ++i) groups.join(group);
    for (int i = 0; i < 3; ++i) groups.announce_leaving(group);
    for (int i = 0; i < 2; ++i) {
        CHECK(!groups.last_to_leave(group));
        groups.leave(group);
    }
    CHECK(groups.last_to_leave(group));
    CHECK_EQ(groups.take_held_back(group), 2);
    groups.leave(group);
    CHECK_EQ(groups.members(group), 2);
    CHECK_EQ(groups.common(group), 3);
    for (int i = 0; i < 2; ++i) groups.announce_leaving(group);  // a later batch counts from zero
    CHECK(!groups.last_to_leave(group));
    CHECK(groups.last_to_leave(group));
    CHECK_EQ(groups.take_held_back(group), 1);
}

TEST(groups_do_not_disturb_one_another) {
    harness::Random random(3);
    struct Plain {
        std::int32_t members = 0;
        std::int64_t common = 0;
    };
    ForkGroups groups;
    std::vector<Plain> plain;
    const auto pick = [&] {
        return static_cast<std::int32_t>(harness::below(random, static_cast<std::int64_t>(plain.size())));
    };
    const auto living = [&] { return std::count_if(plain.begin(), plain.end(), [](const Plain& p) { return p.members > 0; }); };
    for (int step = 0; step < 20'000; ++step) {
        const std::int64_t action = harness::below(random, 4), amount = harness::below(random, 40);
        if (action == 0 && living() < 50) {
            const auto more = static_cast<std::size_t>(1 + amount % 3);
            groups.make_room(more);
            for (std::size_t i = 0; i < more; ++i) {
                const auto group = static_cast<std::size_t>(groups.open(amount));
                if (group >= plain.size()) plain.resize(group + 1);
                CHECK_EQ(plain[group].members, 0);
                plain[group] = Plain{1, amount};
            }
        } else if (!plain.empty()) {
            const std::int32_t group = pick();
            Plain& expected = plain[static_cast<std::size_t>(group)];
            if (expected.members == 0) continue;
            if (action == 1) groups.join(group), ++expected.members;
            if (action == 2) groups.shrink(group, amount), expected.common = std::min(expected.common, amount);
            if (action == 3) groups.leave(group), --expected.members;
        }
        for (std::size_t i = 0; i < plain.size(); ++i) {
            if (plain[i].members == 0) continue;
            CHECK_EQ(groups.members(static_cast<std::int32_t>(i)), plain[i].members);
            CHECK_EQ(groups.common(static_cast<std::int32_t>(i)), plain[i].common);
        }
    }
    CHECK(plain.size() <= 104);  // at most 52 live at once, and places are made twofold
}
