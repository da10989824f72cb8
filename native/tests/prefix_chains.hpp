// The prefix index over an allocator, without sequences: chains of published blocks, whose tokens are single numbers
// repeated, so that a test names a block's content by one number.
#pragma once

#include "harness.hpp"
#include "pagedkv/errors.hpp"
#include "pagedkv/prefix_index.hpp"
#include "store_calls.hpp"

class Chains {
public:
    explicit Chains(std::int64_t blocks, std::int32_t block_size = 2, bool constant_hash = false)
        : pool(blocks, 0, 0), index(pool, block_size, constant_hash), size_(block_size) {}

    // One block below `parent` (-1: a first block under that salt).
    pagedkv::BlockId add(pagedkv::BlockId parent, std::int32_t name, std::int32_t salt = 0, std::int32_t extra = 0) {
        const pagedkv::BlockId b = pool.take();
        pool.raise_fill(b, size_);
        index.publish(parent, salt, b, tokens({name}).data(), extra);
        return b;
    }
    std::vector<pagedkv::BlockId> chain(pagedkv::BlockId parent, const calls::Int32s& names, std::int32_t salt = 0) {
        std::vector<pagedkv::BlockId> all;
        for (const std::int32_t name : names) all.push_back(parent = add(parent, name, salt));
        return all;
    }
    std::vector<pagedkv::BlockId> match(const calls::Int32s& names, std::int32_t salt = 0,
                                        const std::vector<pagedkv::Extra>& extras = {}, std::int64_t most = 1 << 20) const {
        std::vector<pagedkv::BlockId> out(names.size());
        const calls::Int32s all = tokens(names);
        most = std::min(most, static_cast<std::int64_t>(names.size()));
        out.resize(static_cast<std::size_t>(index.match({salt, all, extras}, most, out.data())));
        return out;
    }
    // The block's content is lost, as when it is written over or evicted.
    void lose(pagedkv::BlockId b) { pool.unpublish(std::vector<std::int64_t>{b}); }
    void check() const { index.check(salts_held, digests_held); }

    calls::Int32s tokens(const calls::Int32s& names) const {
        calls::Int32s all;
        all.reserve(names.size() * static_cast<std::size_t>(size_));  // AddressSanitizer sees who reads behind the last one
        for (const std::int32_t name : names) all.insert(all.end(), static_cast<std::size_t>(size_), name);
        return all;
    }
    std::int32_t salt(const std::string& bytes) { return held(index.salts().intern(bytes), salts_held); }
    std::int32_t digest(const std::string& bytes) { return held(index.digests().intern(bytes), digests_held); }

    pagedkv::BlockAllocator pool;
    pagedkv::PrefixIndex index;
    std::vector<std::int64_t> salts_held{0}, digests_held{0};  // what a sequence would hold

private:
    static std::int32_t held(std::int32_t number, std::vector<std::int64_t>& holders) {
        holders.resize(std::max(holders.size(), static_cast<std::size_t>(number) + 1));
        ++holders[static_cast<std::size_t>(number)];
        return number;
    }
    std::int32_t size_;
};

// first, first + 1, ... : the names of a chain.
inline calls::Int32s names(std::int32_t first, std::int32_t count) {
    calls::Int32s all;
    for (std::int32_t i = 0; i < count; ++i) all.push_back(first + i);
    return all;
}

template <class T>
std::vector<T> head(std::vector<T> all, std::size_t count) {
    all.resize(std::min(all.size(), count));
    return all;
}

template <class T>
std::vector<T> joined(std::vector<T> all, const std::vector<T>& more) {
    all.insert(all.end(), more.begin(), more.end());
    return all;
}
