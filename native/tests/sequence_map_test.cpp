#include "pagedkv/sequence_map.hpp"

#include <limits>
#include <map>

#include "harness.hpp"

using pagedkv::Row;
using pagedkv::SeqId;
using pagedkv::SequenceMap;

namespace {

// Where an id starts in a table of 2^bits entries: the map's own formula. If that changes, the programs below stay
// valid, but their ids no longer crowd the end of the table.
std::size_t home(SeqId id, int bits) {
    auto x = static_cast<std::uint64_t>(id);
    x = (x ^ (x >> 32)) * 0x9e3779b97f4a7c15ULL;
    return static_cast<std::size_t>(x >> (64 - bits));
}

// Ids that start in the last `width` entries of a 16-entry table, so that clusters wrap around its end.
std::vector<SeqId> crowded_ids(std::size_t count, std::size_t width) {
    std::vector<SeqId> ids;
    for (SeqId id = -5000; ids.size() < count; ++id)
        if (home(id, 4) >= 16 - width) ids.push_back(id);
    return ids;
}

void random_program(std::uint64_t seed, const std::vector<SeqId>& ids, std::size_t most, int steps) {
    harness::Random random(seed);
    SequenceMap map;
    std::map<SeqId, Row> plain;
    for (int i = 0; i < steps; ++i) {
        const SeqId id = ids[static_cast<std::size_t>(random() % ids.size())];
        const bool known = plain.contains(id);
        if (known && harness::below(random, 3) > 0) {
            map.erase(id);
            plain.erase(id);
        } else if (!known && plain.size() < most) {
            const Row row = static_cast<Row>(harness::below(random, std::numeric_limits<Row>::max()));
            map.insert_room();
            map.insert(id, row);
            plain[id] = row;
        }
        CHECK_EQ(map.size(), plain.size());
        for (std::size_t probe = 0; probe < 8; ++probe) {
            const SeqId asked = ids[static_cast<std::size_t>(random() % ids.size())];
            const auto found = plain.find(asked);
            CHECK_EQ(map.find(asked), found == plain.end() ? -1 : found->second);
        }
    }
    for (const auto& [id, row] : plain) CHECK_EQ(map.find(id), row);
}

}  // namespace

TEST(an_empty_map_finds_nothing) {
    const SequenceMap map;
    for (const SeqId id :
         {std::int64_t{0}, std::int64_t{-1}, std::numeric_limits<SeqId>::max(), std::numeric_limits<SeqId>::min()})
        CHECK_EQ(map.find(id), -1);
    CHECK_EQ(map.size(), std::size_t{0});
}

TEST(every_int64_is_an_id) {
    const std::vector<SeqId> ids = {0, 1, -1, std::numeric_limits<SeqId>::max(), std::numeric_limits<SeqId>::min(), 1LL << 32};
    for (std::uint64_t seed = 0; seed < 50; ++seed) random_program(seed, ids, ids.size(), 200);
}

TEST(map_under_random_programs_with_wrap_around) {
    for (std::size_t width = 1; width <= 3; ++width) {
        const std::vector<SeqId> ids = crowded_ids(24, width);
        // Eight entries are the most before a table of 16 grows: a cluster that starts in the last one must wrap.
        for (std::uint64_t seed = 0; seed < 400; ++seed) random_program(seed, ids, 8, 300);
    }
}

TEST(map_under_random_programs_that_grow) {
    harness::Random random(7);
    std::vector<SeqId> ids;
    for (int i = 0; i < 6000; ++i) ids.push_back(static_cast<SeqId>(random()));
    random_program(11, ids, 5000, 60'000);
}

// Batches of new ids ask for room once; what is known stays findable through every growth.
TEST(room_for_many_is_asked_for_once) {
    harness::Random random(5);
    for (const std::size_t many : {1, 2, 7, 8, 9, 100, 5000}) {
        SequenceMap map;
        std::map<SeqId, Row> plain;
        for (int batch = 0; batch < 3; ++batch) {
            map.insert_room(many);
            map.insert_room(0);
            CHECK_EQ(map.size(), plain.size());
            for (std::size_t i = 0; i < many; ++i) {
                const auto id = static_cast<SeqId>(random());
                const auto row = static_cast<Row>(plain.size());
                map.insert(id, row);
                plain[id] = row;
            }
            for (const auto& [id, row] : plain) CHECK_EQ(map.find(id), row);
            CHECK_EQ(map.find(-1), -1);
        }
        for (const auto& [id, row] : plain) map.erase(id);
        CHECK_EQ(map.size(), std::size_t{0});
    }
}

// Engines count ids up, interleave them between workers, or put a worker number into the high bits.
TEST(regular_ids_stay_findable) {
    for (int shift = 0; shift < 52; shift += 3) {
        SequenceMap map;
        for (std::int64_t i = 0; i < 3000; ++i) {
            map.insert_room();
            map.insert(i << shift, static_cast<Row>(i));
        }
        for (std::int64_t i = 0; i < 3000; ++i) CHECK_EQ(map.find(i << shift), static_cast<Row>(i));
        for (std::int64_t i = 0; i < 3000; i += 2) map.erase(i << shift);
        for (std::int64_t i = 0; i < 3000; ++i) CHECK_EQ(map.find(i << shift), i % 2 == 0 ? -1 : static_cast<Row>(i));
    }
}
