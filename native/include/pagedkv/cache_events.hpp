// CacheEvents records what became findable and what ceased to be, for routers that keep a picture of many caches.
//
// Nothing is recorded before the first drain, which answers with everything that is findable then. When nobody drains,
// the record is given up at a bound and the next drain answers with everything again (a "cleared" in front): a consumer
// that applies events in order is right in every case. Recording cannot fail: lack of memory gives the record up too.
// The caller locks.
#pragma once

#include <cstdint>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "pagedkv/types.hpp"

namespace pagedkv {

enum class EventKind : std::int32_t { stored = 0, removed = 1, cleared = 2 };

struct EventBatch {
    std::vector<std::int32_t> kinds;
    std::vector<BlockId> blocks;
    std::vector<std::int64_t> serials, parents, token_starts, salt_digests;
    std::vector<std::int32_t> tokens;
};

// 64 bits that stand for a salt in events, equal in every process; not a secret and not what the index compares.
inline std::int64_t salt_digest(const std::string& salt) {
    if (salt.empty()) return 0;
    std::uint64_t h = 0xcbf29ce484222325ULL;  // FNV-1a
    for (const char c : salt) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
    return static_cast<std::int64_t>(h | 1U);
}

class CacheEvents {
public:
    explicit CacheEvents(std::int64_t most) : most_(most) {}

    bool following() const { return following_; }
    void stored(BlockId b, std::uint64_t serial, std::uint64_t parent, std::span<const std::int32_t> tokens,
                const std::string& salt) {
        record([&] { add(EventKind::stored, b, serial, parent, tokens, salt_digest(salt)); });
    }
    void removed(BlockId b, std::uint64_t serial) {
        record([&] { add(EventKind::removed, b, serial, 0, {}, 0); });
    }
    void cleared() {
        record([&] {
            batch_ = EventBatch{};  // what was before it is of no use to anybody
            add(EventKind::cleared, -1, 0, 0, {}, 0);
        });
    }

    // Takes what was recorded. `report_all` reports every node that is findable now; called when the record begins.
    template <class ReportAll>
    EventBatch drain(ReportAll&& report_all) {
        if (!following_) {
            following_ = all_ = true;
            cleared();
            report_all();
            all_ = false;
            if (!following_) throw std::bad_alloc();
        }
        EventBatch taken;
        std::swap(taken, batch_);
        return taken;
    }

    void give_up() {
        following_ = false;
        batch_ = EventBatch{};
    }

private:
    template <class Add>
    void record(Add&& work) {
        if (!following_) return;
        try {
            if (!all_ && static_cast<std::int64_t>(batch_.kinds.size()) >= most_) throw std::bad_alloc();
            work();
        } catch (const std::bad_alloc&) {
            give_up();
        }
    }
    void add(EventKind kind, BlockId b, std::uint64_t serial, std::uint64_t parent, std::span<const std::int32_t> tokens,
             std::int64_t salt) {
        batch_.token_starts.push_back(static_cast<std::int64_t>(batch_.tokens.size()));
        batch_.tokens.insert(batch_.tokens.end(), tokens.begin(), tokens.end());
        batch_.kinds.push_back(static_cast<std::int32_t>(kind));
        batch_.blocks.push_back(b);
        batch_.serials.push_back(static_cast<std::int64_t>(serial));
        batch_.parents.push_back(static_cast<std::int64_t>(parent));
        batch_.salt_digests.push_back(salt);
    }

    std::int64_t most_;
    bool following_ = false, all_ = false;
    EventBatch batch_;
};

}  // namespace pagedkv
