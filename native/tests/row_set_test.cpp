#include "pagedkv/row_set.hpp"

#include <set>

#include "harness.hpp"

using pagedkv::Row;
using pagedkv::RowSet;

namespace {

// The same set as plain as possible: the free rows below the first one never taken.
class PlainRows {
public:
    Row lowest_free() const { return free_.empty() ? next_ : *free_.begin(); }
    Row take() {
        const Row row = lowest_free();
        if (free_.erase(row) == 0) ++next_;
        taken_.push_back(row);
        return row;
    }
    Row release_any(std::size_t index) {
        const Row row = taken_[index];
        taken_[index] = taken_.back();
        taken_.pop_back();
        free_.insert(row);
        return row;
    }
    std::size_t size() const { return taken_.size(); }

private:
    std::set<Row> free_;
    std::vector<Row> taken_;
    Row next_ = 0;
};

void random_program(std::uint64_t seed, int steps, std::int64_t most, std::int64_t burst) {
    harness::Random random(seed);
    RowSet rows;
    PlainRows plain;
    std::int64_t goal = most;
    for (int i = 0; i < steps; ++i) {
        if (harness::below(random, burst) == 0) goal = harness::below(random, most + 1);
        if (static_cast<std::int64_t>(plain.size()) < goal) {
            // An admission that fails after this call leaves the room behind; nothing may come of it.
            for (std::int64_t extra = harness::below(random, 3); extra >= 0; --extra)
                rows.make_room(plain.size() + 1 + static_cast<std::size_t>(harness::below(random, 70)));
            rows.make_room(plain.size() + 1);
            CHECK_EQ(rows.take(), plain.take());
        } else if (plain.size() > 0) {
            rows.release(plain.release_any(static_cast<std::size_t>(random() % plain.size())));
        }
        CHECK_EQ(rows.lowest_free(), plain.lowest_free());
    }
}

}  // namespace

TEST(rows_count_up_from_zero) {
    RowSet rows;
    for (Row row = 0; row < 300; ++row) {
        rows.make_room(static_cast<std::size_t>(row) + 1);
        CHECK_EQ(rows.take(), row);
    }
}

TEST(room_for_many_rows_at_once_takes_none) {
    RowSet rows;
    rows.make_room(10000);
    for (Row row = 0; row < 10000; ++row) CHECK_EQ(rows.take(), row);
}

TEST(the_lowest_released_row_comes_next) {
    RowSet rows;
    rows.make_room(201);
    for (int i = 0; i < 200; ++i) rows.take();
    for (const Row row : {150, 64, 3, 63}) rows.release(row);
    for (const Row row : {3, 63, 64, 150, 200}) CHECK_EQ(rows.take(), row);
}

TEST(rows_under_random_programs) {
    for (std::uint64_t seed = 0; seed < 200; ++seed) random_program(seed, 1000, 200, 50);
}

// 64 * 64 rows fill two levels, 64 * 64 * 64 three: every growth of the tree and releases across its words.
TEST(rows_across_levels) {
    random_program(1, 60'000, 4200, 6000);
    random_program(2, 300'000, 9000, 20'000);
    random_program(3, 700'000, 263'000, 300'000);
}
