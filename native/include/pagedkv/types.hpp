// The vocabulary of the core in one page.
//
//   block     block_size tokens of KV memory; the unit of allocation, sharing and eviction (BlockId)
//   sequence  a growing list of tokens that owns references to blocks (SeqId)
//   row       a sequence's line in the device-resident block tables: the lowest free number, fixed for its life
//   slot      block id * block_size + offset: a token's place in the pool (64 bits, always)
//   step      number of a plan; steps only grow, and "retired" says that a step and all before it have finished
//
// Invariants that every public call keeps (SequenceStore::check recounts them from scratch):
//
//   in use + cached + clean + pending = N              0 <= committed <= length <= capacity
//   refs(b) = page-table entries holding b + pins(b)   max over holders of tokens in b <= fill(b) <= block_size
//   in use <=> refs >= 1                               capacity = blocks in the page table * block_size
#pragma once

#include <cstdint>
#include <limits>

namespace pagedkv {

using BlockId = std::int32_t;
using SeqId = std::int64_t;
using Row = std::int32_t;
using Step = std::int64_t;

inline constexpr std::int64_t kMaxTokens = std::numeric_limits<std::int32_t>::max();
// 27 bits of a block's word hold its fill, so a block can be no larger.
inline constexpr std::int64_t kMaxBlockSize = (std::int64_t{1} << 27) - 1;
inline constexpr std::int64_t kMaxBlocks = std::numeric_limits<std::int32_t>::max() - 1;

// A block has at most this many holders among sequences and as many pins, so 32 bits hold its references.
inline constexpr std::int64_t kMostHolders = (std::int64_t{1} << 30) - 1;

enum class BlockState : std::uint8_t {
    clean = 0,   // free, and nothing can find it
    cached = 1,  // free, but found by its content until it is evicted
    in_use = 2,  // refs >= 1
    pending = 3  // given back while work in flight may still touch it
};

// A hint only: on compilers without it nothing changes but speed.
inline void prefetch_for_write([[maybe_unused]] const void* address) {
#if defined(__GNUC__) || defined(__clang__)
    __builtin_prefetch(address, 1);
#endif
}

// Divisions by the block size: a shift where it is a power of two, which it nearly always is.
class BlockMath {
public:
    explicit BlockMath(std::int32_t block_size) : size_(block_size) {
        while ((std::int64_t{1} << shift_) < block_size) ++shift_;
        if ((std::int64_t{1} << shift_) != block_size) shift_ = -1;
    }
    std::int32_t size() const { return size_; }
    std::int64_t index(std::int64_t token) const { return shift_ >= 0 ? token >> shift_ : token / size_; }
    std::int64_t blocks(std::int64_t tokens) const { return index(tokens + size_ - 1); }
    std::int64_t start(std::int64_t block_index) const { return shift_ >= 0 ? block_index << shift_ : block_index * size_; }

private:
    std::int32_t size_;
    std::int32_t shift_ = 0;
};

}  // namespace pagedkv
