// PageTable maps a sequence's logical block index to a physical block id, and knows how many tokens are stored.
// The sequence store keeps one a sequence; it also stands alone, for readers and for engines with a store of their own.
// Invariant: tokens <= entries * block_size. Cost: O(1) each; entries are one contiguous int32 array. The caller locks.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "pagedkv/types.hpp"

namespace pagedkv {

class PageTable {
public:
    std::span<const BlockId> entries() const { return entries_; }
    std::int64_t size() const { return static_cast<std::int64_t>(entries_.size()); }
    std::int32_t tokens() const { return tokens_; }
    void set_tokens(std::int64_t tokens) { tokens_ = static_cast<std::int32_t>(tokens); }

    BlockId& operator[](std::int64_t index) { return entries_[static_cast<std::size_t>(index)]; }
    BlockId operator[](std::int64_t index) const { return entries_[static_cast<std::size_t>(index)]; }

    // Room for `entries` in all, doubling so that appending stays amortized O(1). May throw; changes nothing visible.
    void make_room(std::int64_t entries) {
        const auto wanted = static_cast<std::size_t>(entries);
        if (wanted > entries_.capacity()) entries_.reserve(wanted > 2 * entries_.capacity() ? wanted : 2 * entries_.capacity());
    }
    // The same for a copy of a table that is about to grow, so that a fork's first new blocks move nothing.
    void make_room_to_grow(std::int64_t entries) {
        if (static_cast<std::size_t>(entries) > entries_.capacity())
            make_room(entries + std::max<std::int64_t>(16, entries / 8));
    }
    void push(BlockId b) { entries_.push_back(b); }
    // Replaces everything from `first` on. Needs the room; cannot fail then.
    void replace_from(std::int64_t first, std::span<const BlockId> with) {
        entries_.resize(static_cast<std::size_t>(first));
        entries_.insert(entries_.end(), with.begin(), with.end());
    }

    // Keeps a small array for the row's next sequence and gives a large one back.
    void clear() {
        entries_.clear();
        tokens_ = 0;
        if (entries_.capacity() > 1024) std::vector<BlockId>().swap(entries_);
    }

private:
    std::vector<BlockId> entries_;
    std::int32_t tokens_ = 0;
};

}  // namespace pagedkv
