// The blocks that are nobody's, in the order in which they will be handed out.
#pragma once

#include <algorithm>
#include <vector>

#include "pagedkv/types.hpp"

struct FreeLists {
    std::vector<pagedkv::BlockId> clean;    // the last one is next
    std::vector<pagedkv::BlockId> cached;   // the first one is evicted next
    std::vector<pagedkv::BlockId> pending;  // by the step that must retire, then by age

    explicit FreeLists(std::int64_t total) {
        for (auto b = static_cast<pagedkv::BlockId>(total); b-- > 0;) clean.push_back(b);
    }
    void remove(pagedkv::BlockId b) {
        for (auto* list : {&clean, &cached, &pending}) std::erase(*list, b);
    }
    static bool holds(const std::vector<pagedkv::BlockId>& list, pagedkv::BlockId b) {
        return std::find(list.begin(), list.end(), b) != list.end();
    }
};
