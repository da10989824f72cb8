// KVCacheManager is a SequenceStore behind a lock: the thread rule of the public API in one place.
// Callers convert their arguments, leave Python's interpreter lock, call locked(), and come back. Nothing under the
// lock touches Python, waits, or calls back.
#pragma once

#include <mutex>
#include <utility>

#include "pagedkv/sequence_store.hpp"

namespace pagedkv {

class KVCacheManager {
public:
    explicit KVCacheManager(const StoreOptions& options) : store_(options) {}

    template <class Work>
    decltype(auto) locked(Work&& work) {
#ifndef PAGEDKV_PLANT_RACE  // the stress test removes the lock to prove that ThreadSanitizer would notice
        const std::lock_guard<std::mutex> guard(mutex_);
#endif
        return std::forward<Work>(work)(store_);
    }

    bool prefix_caching() const { return store_.prefix_caching(); }  // never changes: no lock

    // For the allocator's own callers, who lock the same way.
    BlockAllocator& allocator() { return store_.allocator(); }
    std::mutex& mutex() { return mutex_; }

private:
    std::mutex mutex_;
    SequenceStore store_;
};

}  // namespace pagedkv
