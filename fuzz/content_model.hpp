// Which blocks can be found by which content, as plainly as possible: a content spells out everything that it stands for,
// and a map says which blocks hold it.
#pragma once

#include <compare>
#include <map>
#include <string>
#include <vector>

#include "pagedkv/types.hpp"

struct ModelBlockContent {
    std::vector<std::int32_t> tokens;
    std::string covers;  // which of them lie under spans, and what those are
    auto operator<=>(const ModelBlockContent&) const = default;
};

// A block's content with everything above it.
struct ModelContent {
    std::string salt;
    std::vector<ModelBlockContent> chain;
    auto operator<=>(const ModelContent&) const = default;

    bool begins_with(const ModelContent& head) const {
        return salt == head.salt && chain.size() >= head.chain.size() &&
               std::equal(head.chain.begin(), head.chain.end(), chain.begin());
    }
};

class ContentModel {
public:
    void publish(pagedkv::BlockId b, const ModelContent& content) {
        std::vector<pagedkv::BlockId>& copies = copies_[content];
        copies.insert(copies.begin() + (copies.empty() ? 0 : 1), b);
        of_block_[b] = content;
    }

    // The block that a look-up finds, or -1: the first of its copies, until that one is lost.
    pagedkv::BlockId find(const ModelContent& content) const {
        const auto found = copies_.find(content);
        return found == copies_.end() ? -1 : found->second[0];
    }

    // `b` does not hold its content any more. The other blocks that cannot be found any more, highest id first.
    std::vector<pagedkv::BlockId> lose(pagedkv::BlockId b);
    std::vector<pagedkv::BlockId> lose_all();

    const ModelContent& of(pagedkv::BlockId b) const { return of_block_.at(b); }
    const std::map<ModelContent, std::vector<pagedkv::BlockId>>& all() const { return copies_; }

private:
    std::map<ModelContent, std::vector<pagedkv::BlockId>> copies_;
    std::map<pagedkv::BlockId, ModelContent> of_block_;
};
