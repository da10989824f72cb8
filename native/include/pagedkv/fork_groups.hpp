// ForkGroups remembers which sequences descend from one fork and how many leading table entries all of them share, so
// that a beam step compares, and the end of a group drops, nothing of the prompt.
//
//   member a   [ 0 1 2 3 | 7 9 ]        common = 4: entries below agree in all members, entry by entry;
//   member b   [ 0 1 2 3 | 7 8 ]        beyond it they may agree or not
//
// Invariants: common <= entries of every member; members counts the live sequences with this group; common never grows
// while a group has two members. Cost: O(1) each. make_room() may throw, nothing else can fail. The caller locks.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "pagedkv/types.hpp"

namespace pagedkv {

class ForkGroups {
public:
    static constexpr std::int32_t kNone = -1;

    // Room to open `more` groups.
    void make_room(std::size_t more) {
        if (unused_.size() >= more) return;
        const std::size_t first = groups_.size();
        const std::size_t added = std::max(more - unused_.size(), first);
        unused_.reserve(first + added);
        groups_.resize(first + added);
        for (std::size_t i = first + added; i-- > first;) unused_.push_back(static_cast<std::int32_t>(i));
    }

    // A group of one, of which all `entries` are common.
    std::int32_t open(std::int64_t entries) {
        const std::int32_t group = unused_.back();
        unused_.pop_back();
        at(group) = Group{1, static_cast<std::int32_t>(entries), 0, 0};
        return group;
    }
    void join(std::int32_t group) { ++at(group).members; }
    void leave(std::int32_t group) {
        if (group == kNone || --at(group).members > 0) return;
        unused_.push_back(group);  // its place was reserved when the group was made
    }

    std::int64_t common(std::int32_t group) const { return group == kNone ? 0 : at(group).common; }
    std::int32_t members(std::int32_t group) const { return at(group).members; }
    // The only member may say anew what is common to all.
    void set_common(std::int32_t group, std::int64_t entries) { at(group).common = static_cast<std::int32_t>(entries); }
    // A member's entry `entries` is no longer what it was.
    void shrink(std::int32_t group, std::int64_t entries) {
        if (group != kNone && at(group).common > entries) set_common(group, entries);
    }

    // Members that leave in one batch drop their common entries together: all but the last hold theirs back.
    void announce_leaving(std::int32_t group) {
        if (group != kNone) ++at(group).leaving;
    }
    bool last_to_leave(std::int32_t group) {
        if (--at(group).leaving == 0) return true;
        ++at(group).held_back;
        return false;
    }
    std::int32_t take_held_back(std::int32_t group) { return std::exchange(at(group).held_back, 0); }

private:
    struct Group {
        std::int32_t members = 0, common = 0;
        std::int32_t leaving = 0, held_back = 0;  // only within one batch
    };
    Group& at(std::int32_t group) { return groups_[static_cast<std::size_t>(group)]; }
    const Group& at(std::int32_t group) const { return groups_[static_cast<std::size_t>(group)]; }

    std::vector<Group> groups_;
    std::vector<std::int32_t> unused_;
};

}  // namespace pagedkv
