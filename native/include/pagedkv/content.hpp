// What a sequence's tokens are: its side of prefix reuse. Kept only where the index is on.
#pragma once

#include <algorithm>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "pagedkv/prefix_index.hpp"

namespace pagedkv {

// A digest that stands for tokens start .. stop - 1 beyond their ids: an image, say.
struct Cover {
    std::int64_t start = 0, stop = 0;
    std::string digest;
};

// A prompt and what separates it from equal ones. Without an index only the number of tokens matters.
struct Prompt {
    std::int64_t count = 0;
    std::span<const std::int32_t> tokens;
    std::string salt;
    std::vector<Cover> covers;  // ascending, apart from each other, within the tokens
};

struct Content {
    std::int32_t salt = Interner::kUnknown;
    std::int32_t published = 0;                                    // leading columns that are done
    std::int32_t stop = std::numeric_limits<std::int32_t>::max();  // no column from here on is published
    std::int32_t first = 0;  // position of ids[0]; what is before lies in the index, under the sequence's own blocks
    std::vector<std::int32_t> ids;
    std::vector<Extra> extras;

    std::int32_t extra(std::int32_t column) const {
        const auto found = std::ranges::lower_bound(extras, column, {}, &Extra::column);
        return found != extras.end() && found->column == column ? found->number : PrefixIndex::kNoExtra;
    }
};

}  // namespace pagedkv
