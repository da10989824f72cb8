// BlockAllocator owns the state of N uniform blocks: who may have them, not where they are.
//
// Each block is in exactly one of four states (types.hpp), found by the list that names it:
//
//   clean    a LIFO stack, below it the blocks never handed out yet (block 0 first on a new pool)
//   cached   a doubly linked list, least recently released first: the order of eviction
//   in use   no list; refs >= 1
//   pending  a doubly linked list ordered by the step that must retire first
//
// Invariants: clean + cached + in use + pending = N; pins(b) <= refs(b); fill(b) = 0 for clean blocks;
//             stored = sum of fill over in-use blocks; pinned_only = blocks with refs == pins >= 1.
// A reference dropped "after step s" defers the block: whoever drops its last reference, the block is pending
// until s has retired.
// References come from page tables (acquire/release, trusted, checked by the caller) and from outside
// (pins: allocate, increment_ref, free: checked here), so that nobody can drop a reference of a sequence.
// Thread rule: none; the caller locks. Stream rule: none; ids only.
// Cost: every operation is O(1) a block, nothing walks the pool; 32 bytes a block, of which 12 are touched before the
// first eviction or deferred free. Words and links are apart: twice as many words of blocks that are only taken and
// given back stay within reach of the caches.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "pagedkv/types.hpp"

namespace pagedkv {

// Who can find blocks by their content: told when a published block no longer holds it, before anything else happens
// to the block. May withdraw() other blocks; cannot fail.
class ContentOwner {
public:
    virtual void lost(BlockId b) = 0;

protected:
    ~ContentOwner() = default;
};

class BlockAllocator {
public:
    BlockAllocator(std::int64_t num_blocks, std::int64_t block_size_bytes, std::uint64_t pool_base);

    std::int32_t total() const { return total_; }
    std::int32_t clean() const { return total_ - cached_ - in_use_ - pending_; }
    std::int32_t cached() const { return cached_; }
    std::int32_t in_use() const { return in_use_; }
    std::int32_t pending() const { return pending_; }
    std::int32_t available() const { return total_ - in_use_ - pending_; }
    std::int32_t pinned_only() const { return pinned_only_; }
    std::int64_t stored_tokens() const { return stored_; }
    std::int64_t evictions() const { return evictions_; }
    std::int64_t peak_allocated() const { return peak_; }

    BlockState state(BlockId b) const { return static_cast<BlockState>(word(b).state); }
    std::int32_t refs(BlockId b) const { return word(b).refs; }
    std::int32_t pins(BlockId b) const { return pins_[at(b)]; }
    std::int32_t fill(BlockId b) const { return static_cast<std::int32_t>(word(b).fill); }
    bool published(BlockId b) const { return word(b).published != 0; }
    // Exactly one holder, nothing findable, nobody who may still read for a former holder: it may be written without a
    // copy and without telling anybody.
    bool plainly_writable(BlockId b) const {
        const Word& w = word(b);
        return w.refs == 1 && w.published == 0 && w.deferred == 0;
    }
    // Work in flight may still touch the block for somebody who gave it back with a step.
    bool busy(BlockId b) const { return word(b).deferred != 0 && pending_step_[at(b)] > retired_; }
    // Its holder, who has `own` tokens in it, may write behind them: nobody else has or reads anything there.
    bool writable_in_place(BlockId b, std::int32_t own) const { return word(b).refs <= 1 && (fill(b) <= own || !busy(b)); }
    bool special(BlockId b) const { return word(b).special != 0; }
    void prefetch(BlockId b) const { prefetch_for_write(&words_[at(b)]); }
    // For who is about to bring it back into use as well.
    void prefetch_findable(BlockId b) const {
        prefetch(b);
        prefetch_for_write(&links_[at(b)]);
    }
    void set_content_owner(ContentOwner* owner) { owner_ = owner; }

    // Trusted operations for page tables; none can fail.
    BlockId take();  // needs available() >= 1; clean first, then evicts; refs 1, fill 0
    // One more reference to blocks in use, or to findable ones that are free or pending: they come back with their content.
    void acquire(std::span<const BlockId> chain);
    std::int32_t count_cached(std::span<const BlockId> blocks) const;
    void share(BlockId b, std::int32_t holders) { word(b).refs += holders; }  // the same, where a page table holds it
    // Less references; at zero pending until retire(after), then cached or clean.
    void release(BlockId b, Step after, std::int32_t holders = 1);
    void retire(Step s);  // pending blocks of s and before become cached or clean
    void raise_fill(BlockId b, std::int32_t tokens);
    void lower_fill(BlockId b, std::int32_t tokens);
    void unpublish_for_write(BlockId b, std::int32_t tokens_kept);
    void mark_published(BlockId b, bool special);  // special: its owner knows more about it than its tokens
    void withdraw(BlockId b);                      // unpublish, by the content owner itself
    void note_peak();
    // Counting pass of a batch: pretend a writer left a shared block, and undo it.
    void lend_ref(BlockId b) { --word(b).refs; }
    void return_ref(BlockId b) { ++word(b).refs; }

    // Checked operations for callers outside; atomic.
    void allocate(std::int64_t count, std::span<BlockId> out);  // out.size() == count, see require()
    void require(std::int64_t count) const;                     // throws NeverFits, OutOfBlocks
    void increment_ref(std::span<const std::int64_t> ids);
    void free(std::span<const std::int64_t> ids);
    void publish(std::span<const std::int64_t> ids);
    void unpublish(std::span<const std::int64_t> ids);

    BlockId checked(std::int64_t id) const;  // throws InvalidArgument beyond 0..N-1
    std::uint64_t address(BlockId b) const;  // throws SequenceState while no pool is bound
    void bind_pool(std::uint64_t base, std::int64_t block_size_bytes);
    std::uint64_t pool_base() const { return base_; }
    std::int64_t block_size_bytes() const { return bytes_; }

    // Recounts everything; table_refs[b] = page-table entries that hold b. Throws Error naming what is broken.
    void check(std::span<const std::int32_t> table_refs) const;

private:
    struct Word {
        std::int32_t refs;
        std::uint32_t fill : 27;
        std::uint32_t state : 2;
        std::uint32_t published : 1;
        std::uint32_t deferred : 1;  // pending_step_ says how long work in flight may touch it
        std::uint32_t special : 1;
    };
    struct Link {  // of cached and pending blocks
        BlockId prev, next;
    };
    struct List {  // intrusive, through links_
        BlockId head = -1;
        BlockId tail = -1;
    };

    static std::size_t at(BlockId b) { return static_cast<std::size_t>(b); }
    Word& word(BlockId b) { return words_[at(b)]; }
    const Word& word(BlockId b) const { return words_[at(b)]; }
    Link& link(BlockId b) { return links_[at(b)]; }
    const Link& link(BlockId b) const { return links_[at(b)]; }
    void set_state(BlockId b, BlockState s) { word(b).state = static_cast<std::uint32_t>(s) & 3U; }
    void set_fill(BlockId b, std::int32_t tokens);
    void drop(BlockId b, Step after);
    void defer(BlockId b, Step after);
    void park(BlockId b);
    void to_free_list(BlockId b);
    void push_clean(BlockId b);
    void insert_after(List& list, BlockId where, BlockId b);
    void unlink(List& list, BlockId b);
    void revive(BlockId b);
    std::size_t revive_neighbors(std::span<const BlockId> chain);
    void set_unpublished(BlockId b);
    void check_lists() const;

    std::int32_t total_;
    std::int32_t cached_ = 0, in_use_ = 0, pending_ = 0, pinned_only_ = 0;
    std::int32_t clean_top_ = 0;  // entries of clean_stack_
    std::int32_t fresh_ = 0;      // blocks below were handed out at least once
    std::int64_t stored_ = 0, evictions_ = 0, peak_ = 0;
    Step retired_ = 0;
    std::unique_ptr<Word[]> words_;
    std::unique_ptr<std::int32_t[]> pins_;
    std::unique_ptr<BlockId[]> clean_stack_;  // this and the next two: untouched memory until used
    std::unique_ptr<Link[]> links_;
    std::unique_ptr<Step[]> pending_step_;
    List cached_list_, pending_list_;
    ContentOwner* owner_ = nullptr;
    std::uint64_t base_ = 0;
    std::int64_t bytes_ = 0;
};

}  // namespace pagedkv
