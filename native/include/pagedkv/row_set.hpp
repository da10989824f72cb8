// RowSet hands out the lowest free row number. Rows of finished sequences are reused first, so the device-resident
// block tables stay as small as the largest number of sequences that lived at once.
//
// A bit per row says "taken"; each word of a level above says which words below are full. Cost: one step a level,
// and a level covers 64 times the one below (four levels for 16 million rows). No thread rule of its own.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "pagedkv/types.hpp"

namespace pagedkv {

class RowSet {
public:
    RowSet() { levels_.emplace_back(1, 0); }

    // The row that take() returns next; never fails.
    Row lowest_free() const {
        std::size_t index = 0;
        for (std::size_t level = levels_.size(); level-- > 0;) {
            const std::uint64_t word = index < levels_[level].size() ? levels_[level][index] : 0;
            index = index * 64 + static_cast<std::size_t>(std::countr_one(word));
        }
        return static_cast<Row>(index);
    }

    // Room for rows 0 .. rows - 1; where so many are taken at most, each take() finds a row below that. May allocate;
    // throws without changing which rows are taken. Call before take().
    void make_room(std::size_t rows) {
        while (rows > capacity()) {
            const bool full = ~levels_.back()[0] == 0;
            levels_.emplace_back(1, full ? 1U : 0U);
        }
        std::size_t words = rows;
        for (auto& level : levels_) {
            words = (words + 63) / 64;
            if (words > level.size()) level.resize(words, 0);
        }
    }

    Row take() {
        const Row row = lowest_free();
        auto index = static_cast<std::size_t>(row);
        for (auto& level : levels_) {
            std::uint64_t& word = level[index / 64];
            word |= std::uint64_t{1} << (index % 64);
            if (~word != 0) break;
            index /= 64;
        }
        return row;
    }

    void release(Row row) {
        auto index = static_cast<std::size_t>(row);
        for (auto& level : levels_) {
            std::uint64_t& word = level[index / 64];
            const bool was_full = ~word == 0;
            word &= ~(std::uint64_t{1} << (index % 64));
            if (!was_full) break;
            index /= 64;
        }
    }

private:
    std::size_t capacity() const {
        std::size_t rows = 1;
        for (std::size_t i = 0; i < levels_.size(); ++i) rows *= 64;
        return rows;
    }

    std::vector<std::vector<std::uint64_t>> levels_;  // levels_[0]: a bit a row
};

}  // namespace pagedkv
