#include "content_model.hpp"

#include <algorithm>
#include <functional>

using pagedkv::BlockId;

std::vector<BlockId> ContentModel::lose(BlockId b) {
    std::vector<BlockId> gone;
    const auto found = of_block_.find(b);
    if (found == of_block_.end()) return gone;
    const ModelContent content = found->second;
    of_block_.erase(found);
    std::erase(copies_.at(content), b);
    if (!copies_.at(content).empty()) return gone;
    copies_.erase(content);
    for (const auto& [other, below] : of_block_)
        if (below.begins_with(content)) gone.push_back(other);
    for (const BlockId other : gone) of_block_.erase(other);
    std::erase_if(copies_, [&](const auto& entry) { return entry.first.begins_with(content); });
    std::sort(gone.begin(), gone.end(), std::greater<>());
    return gone;
}

std::vector<BlockId> ContentModel::lose_all() {
    std::vector<BlockId> gone;
    for (const auto& [b, content] : of_block_) gone.push_back(b);
    std::reverse(gone.begin(), gone.end());
    of_block_.clear();
    copies_.clear();
    return gone;
}
