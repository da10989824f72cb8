// Interner gives equal byte strings one small number, exactly: salts, and the digests that cover a block. A number lives
// while somebody holds it. intern() may throw and then changes nothing; the rest cannot fail. The caller locks.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "pagedkv/types.hpp"

namespace pagedkv {

class Interner {
public:
    static constexpr std::int32_t kUnknown = -1;

    std::int32_t find(const std::string& bytes) const {
        const auto found = numbers_.find(bytes);
        return found == numbers_.end() ? kUnknown : found->second;
    }

    // The number of these bytes, with one more holder.
    std::int32_t intern(const std::string& bytes) {
        if (free_.empty()) {
            if (entries_.size() == entries_.capacity()) entries_.reserve(2 * entries_.size() + 8);
            free_.reserve(entries_.capacity());
            free_.push_back(static_cast<std::int32_t>(entries_.size()));
            entries_.emplace_back();
        }
        const auto [place, fresh] = numbers_.try_emplace(bytes, free_.back());
        if (fresh) {
            entries_[static_cast<std::size_t>(free_.back())] = Entry{place, 0};
            free_.pop_back();
        }
        hold(place->second);
        return place->second;
    }

    void hold(std::int32_t number) { ++entries_[static_cast<std::size_t>(number)].holders; }
    void release(std::int32_t number) {
        Entry& entry = entries_[static_cast<std::size_t>(number)];
        if (--entry.holders > 0) return;
        numbers_.erase(entry.place);
        free_.push_back(number);  // room was made when the entry was
    }

    const std::string& bytes(std::int32_t number) const { return entries_[static_cast<std::size_t>(number)].place->first; }
    std::size_t size() const { return numbers_.size(); }
    // For recounts: numbers are below slots(); one that is free has no holder.
    std::size_t slots() const { return entries_.size(); }
    std::int64_t holders(std::size_t number) const { return entries_[number].holders; }

private:
    using Numbers = std::map<std::string, std::int32_t>;
    struct Entry {
        Numbers::iterator place;
        std::int64_t holders = 0;
    };

    Numbers numbers_;
    std::vector<Entry> entries_;
    std::vector<std::int32_t> free_;
};

}  // namespace pagedkv
