// SequenceMap finds the row of a sequence id: open addressing with linear probing and backward-shift deletion, so
// there are no tombstones and lookups stay one or two cache lines for ever. Load at most one half.
// insert_room() may allocate and throw; everything else cannot fail. The caller locks.
#pragma once

#include <cstdint>
#include <vector>

#include "pagedkv/types.hpp"

namespace pagedkv {

class SequenceMap {
public:
    SequenceMap() : entries_(kSmallest) {}

    std::size_t size() const { return size_; }

    Row find(SeqId id) const {
        for (std::size_t i = home(id);; i = (i + 1) & mask()) {
            const Entry& entry = entries_[i];
            if (entry.row < 0 || entry.id == id) return entry.row;
        }
    }

    // Room for `more` entries, before anything else of the operation is changed.
    void insert_room(std::size_t more = 1) {
        std::size_t wanted = entries_.size();
        int shift = shift_;
        for (; (size_ + more) * 2 > wanted; wanted *= 2) --shift;
        if (wanted == entries_.size()) return;
        std::vector<Entry> old(wanted);
        old.swap(entries_);
        shift_ = shift;
        for (const Entry& entry : old)
            if (entry.row >= 0) place(entry);
    }

    void insert(SeqId id, Row row) {
        place(Entry{id, row});
        ++size_;
    }

    void erase(SeqId id) {
        std::size_t hole = home(id);
        while (entries_[hole].id != id || entries_[hole].row < 0) hole = (hole + 1) & mask();
        for (std::size_t i = (hole + 1) & mask(); entries_[i].row >= 0; i = (i + 1) & mask()) {
            // An entry moves back only if that does not put it before its home.
            if (((i - home(entries_[i].id)) & mask()) < ((i - hole) & mask())) continue;
            entries_[hole] = entries_[i];
            hole = i;
        }
        entries_[hole] = Entry{};
        --size_;
    }

private:
    struct Entry {
        SeqId id = 0;
        Row row = -1;
    };

    std::size_t mask() const { return entries_.size() - 1; }

    // Multiplicative hashing: the high bits of the product depend on every bit of the id.
    std::size_t home(SeqId id) const {
        auto x = static_cast<std::uint64_t>(id);
        x = (x ^ (x >> 32)) * 0x9e3779b97f4a7c15ULL;
        return static_cast<std::size_t>(x >> shift_);
    }

    void place(const Entry& entry) {
        std::size_t i = home(entry.id);
        while (entries_[i].row >= 0) i = (i + 1) & mask();
        entries_[i] = entry;
    }

    static constexpr std::size_t kSmallest = 16;

    std::vector<Entry> entries_;
    std::size_t size_ = 0;
    int shift_ = 64 - 4;  // entries_.size() == 1 << (64 - shift_)
};

}  // namespace pagedkv
