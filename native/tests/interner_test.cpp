#include "pagedkv/interner.hpp"

#include "harness.hpp"
#include "pagedkv/errors.hpp"

using pagedkv::Interner;
using pagedkv::join;

TEST(equal_bytes_have_one_number_while_somebody_holds_it) {
    Interner interned;
    CHECK_EQ(interned.find("a"), Interner::kUnknown);
    const std::int32_t a = interned.intern("a"), b = interned.intern("b");
    CHECK(a != b);
    CHECK_EQ(interned.intern("a"), a);
    CHECK_EQ(interned.holders(static_cast<std::size_t>(a)), 2);
    CHECK_EQ(interned.bytes(a), "a");
    interned.hold(a);
    for (int holders = 3; holders > 0; --holders) {
        CHECK_EQ(interned.find("a"), a);
        interned.release(a);
    }
    CHECK_EQ(interned.find("a"), Interner::kUnknown);
    CHECK_EQ(interned.find("b"), b);
    CHECK_EQ(interned.size(), std::size_t{1});
}

TEST(numbers_that_nobody_holds_are_given_again) {
    Interner interned;
    for (int round = 0; round < 100; ++round) {
        const std::int32_t a = interned.intern(join("a", round)), b = interned.intern(join("b", round));
        CHECK(a != b);
        CHECK_EQ(interned.bytes(a), join("a", round));
        interned.release(a);
        CHECK_EQ(interned.bytes(b), join("b", round));
        interned.release(b);
    }
    CHECK_EQ(interned.size(), std::size_t{0});
    CHECK(interned.slots() <= 2);
}

TEST(bytes_are_compared_whole) {
    Interner interned;
    const std::string zero("\0", 1), zeros("\0\0", 2);
    const std::int32_t none = interned.intern(""), one = interned.intern(zero), two = interned.intern(zeros);
    CHECK(none != one && one != two && two != none);
    CHECK_EQ(interned.find(zeros), two);
    CHECK_EQ(interned.find(std::string("\0a", 2)), Interner::kUnknown);
}

// What a map does with the same names, through growth and holes.
TEST(many_names_come_and_go) {
    Interner interned;
    harness::Random random(1);
    std::map<std::string, std::pair<std::int32_t, std::int64_t>> right;  // number, holders
    for (int i = 0; i < 20'000; ++i) {
        const std::string name = std::to_string(harness::below(random, 200));
        auto& [number, holders] = right[name];
        CHECK_EQ(interned.find(name), holders > 0 ? number : Interner::kUnknown);
        if (harness::below(random, 2) == 0) {
            const std::int32_t given = interned.intern(name);
            CHECK(holders == 0 || given == number);
            number = given;
            ++holders;
        } else if (holders > 0) {
            interned.release(number);
            --holders;
        }
    }
    std::size_t held = 0;
    for (const auto& [name, entry] : right) {
        if (entry.second == 0) continue;
        ++held;
        CHECK_EQ(interned.bytes(entry.first), name);
        CHECK_EQ(interned.holders(static_cast<std::size_t>(entry.first)), entry.second);
    }
    CHECK_EQ(interned.size(), held);
    CHECK(interned.slots() <= 200);
}
