#include "pagedkv/block_allocator.hpp"

#include <limits>

#include "pagedkv/errors.hpp"

namespace pagedkv {

namespace {
std::int32_t checked_size(std::int64_t num_blocks) {
    if (num_blocks < 1 || num_blocks > kMaxBlocks)
        throw InvalidArgument(join("num_blocks is ", num_blocks, "; a pool has 1 to ", kMaxBlocks, " blocks"));
    return static_cast<std::int32_t>(num_blocks);
}
}  // namespace

BlockAllocator::BlockAllocator(std::int64_t num_blocks, std::int64_t block_size_bytes, std::uint64_t pool_base)
    : total_(checked_size(num_blocks)) {
    bind_pool(pool_base, block_size_bytes);
    const auto n = static_cast<std::size_t>(total_);
    words_ = std::make_unique<Word[]>(n);
    pins_ = std::make_unique<std::int32_t[]>(n);
    clean_stack_ = std::make_unique_for_overwrite<BlockId[]>(n);
    links_ = std::make_unique_for_overwrite<Link[]>(n);
    pending_step_ = std::make_unique_for_overwrite<Step[]>(n);
}

void BlockAllocator::bind_pool(std::uint64_t base, std::int64_t block_size_bytes) {
    if (block_size_bytes < 0)
        throw InvalidArgument(join("block_size_bytes is ", block_size_bytes, "; give the bytes of one block"));
    const std::uint64_t room = std::numeric_limits<std::uint64_t>::max() - base;
    if (block_size_bytes > 0 && room / static_cast<std::uint64_t>(block_size_bytes) < static_cast<std::uint64_t>(total_))
        throw InvalidArgument(join(total_, " blocks of ", block_size_bytes, " bytes from address ", base,
                                   " do not fit 64 bits; give the pool's real address and block size"));
    base_ = base;
    bytes_ = block_size_bytes;
}

BlockId BlockAllocator::take() {
    BlockId b;
    if (clean_top_ > 0) {
        b = clean_stack_[at(--clean_top_)];
    } else if (fresh_ < total_) {
        b = fresh_++;
    } else {
        b = cached_list_.head;
        unlink(cached_list_, b);
        --cached_;
        ++evictions_;
        if (owner_ != nullptr) owner_->lost(b);
    }
    word(b) = Word{1, 0, static_cast<std::uint32_t>(BlockState::in_use) & 3U, 0, 0, 0};
    ++in_use_;
    return b;
}

std::int32_t BlockAllocator::count_cached(std::span<const BlockId> blocks) const {
    std::int32_t count = 0;
    for (const BlockId b : blocks) count += state(b) == BlockState::cached ? 1 : 0;
    return count;
}

void BlockAllocator::acquire(std::span<const BlockId> chain) {
    for (std::size_t i = 0; i < chain.size();) {
        const BlockId b = chain[i];
        Word& w = word(b);
        if (state(b) == BlockState::cached) {
            i += revive_neighbors(chain.subspan(i));
            continue;
        }
        if (w.refs == 0) revive(b);
        else if (w.refs == pins_[at(b)]) --pinned_only_;
        ++w.refs;
        ++i;
    }
}

// A chain that was given back at once lies in one piece of the list, its head last: that piece is cut out at its ends.
std::size_t BlockAllocator::revive_neighbors(std::span<const BlockId> chain) {
    const BlockId behind = link(chain[0]).next;
    std::size_t n = 0;
    for (bool more = true; more; ++n) {
        Word& w = word(chain[n]);
        stored_ += w.fill;
        w.refs = 1;
        w.state = static_cast<std::uint32_t>(BlockState::in_use) & 3U;
        more = n + 1 < chain.size() && link(chain[n]).prev == chain[n + 1];
    }
    const BlockId before = link(chain[n - 1]).prev;
    (before >= 0 ? link(before).next : cached_list_.head) = behind;
    (behind >= 0 ? link(behind).prev : cached_list_.tail) = before;
    cached_ -= static_cast<std::int32_t>(n);
    in_use_ += static_cast<std::int32_t>(n);
    return n;
}

void BlockAllocator::release(BlockId b, Step after, std::int32_t holders) {
    Word& w = word(b);
    w.refs -= holders;
    if (w.refs == 0) return drop(b, after);
    if (w.refs == pins_[at(b)]) ++pinned_only_;
    if (after > retired_) defer(b, after);
}

// The last reference is gone: the block leaves the in-use sums and waits, or is free.
void BlockAllocator::drop(BlockId b, Step after) {
    --in_use_;
    stored_ -= fill(b);
    if (!published(b)) set_fill(b, 0);
    if (after > retired_) defer(b, after);
    if (!word(b).deferred) return to_free_list(b);
    if (pending_step_[at(b)] > retired_) return park(b);
    word(b).deferred = 0;
    to_free_list(b);
}

void BlockAllocator::defer(BlockId b, Step after) {
    if (!word(b).deferred || pending_step_[at(b)] < after) pending_step_[at(b)] = after;
    word(b).deferred = 1;
}

void BlockAllocator::park(BlockId b) {
    // Steps nearly always come in order, so the walk from the tail ends at once.
    BlockId where = pending_list_.tail;
    while (where >= 0 && pending_step_[at(where)] > pending_step_[at(b)]) where = link(where).prev;
    insert_after(pending_list_, where, b);
    set_state(b, BlockState::pending);
    ++pending_;
}

void BlockAllocator::retire(Step s) {
    retired_ = s;
    while (pending_list_.head >= 0 && pending_step_[at(pending_list_.head)] <= s) {
        const BlockId b = pending_list_.head;
        unlink(pending_list_, b);
        --pending_;
        word(b).deferred = 0;
        to_free_list(b);
    }
}

void BlockAllocator::to_free_list(BlockId b) {
    if (!published(b)) {
        push_clean(b);
        return;
    }
    insert_after(cached_list_, cached_list_.tail, b);
    set_state(b, BlockState::cached);
    ++cached_;
}

void BlockAllocator::push_clean(BlockId b) {
    set_state(b, BlockState::clean);
    clean_stack_[at(clean_top_++)] = b;
}

void BlockAllocator::set_fill(BlockId b, std::int32_t tokens) {
    word(b).fill = static_cast<std::uint32_t>(tokens) & ((1U << 27) - 1U);
}

void BlockAllocator::raise_fill(BlockId b, std::int32_t tokens) {
    const std::int32_t before = fill(b);
    if (tokens <= before) return;
    stored_ += tokens - before;
    set_fill(b, tokens);
}

void BlockAllocator::lower_fill(BlockId b, std::int32_t tokens) {
    const std::int32_t before = fill(b);
    if (tokens >= before) return;
    stored_ -= before - tokens;
    set_fill(b, tokens);
}

// The sole holder is about to overwrite tokens from tokens_kept on: what was findable is no longer there.
void BlockAllocator::unpublish_for_write(BlockId b, std::int32_t tokens_kept) {
    if (!published(b)) return;
    set_unpublished(b);
    if (owner_ != nullptr) owner_->lost(b);
    lower_fill(b, tokens_kept);
}

void BlockAllocator::mark_published(BlockId b, bool special) {
    word(b).published = 1;
    word(b).special = special ? 1 : 0;
}

void BlockAllocator::set_unpublished(BlockId b) {
    word(b).published = 0;
    word(b).special = 0;
}

// A free block whose content is findable comes back into use with its content.
void BlockAllocator::revive(BlockId b) {
    const bool was_cached = state(b) == BlockState::cached;
    unlink(was_cached ? cached_list_ : pending_list_, b);
    --(was_cached ? cached_ : pending_);
    set_state(b, BlockState::in_use);
    ++in_use_;
    stored_ += fill(b);
}

// Nothing finds the block any more: held ones stay with their holders, cached ones are clean.
void BlockAllocator::withdraw(BlockId b) {
    set_unpublished(b);
    if (state(b) == BlockState::pending) set_fill(b, 0);
    if (state(b) != BlockState::cached) return;
    unlink(cached_list_, b);
    --cached_;
    set_fill(b, 0);
    push_clean(b);
}

void BlockAllocator::note_peak() {
    const std::int64_t now = std::int64_t{in_use_} + pending_;
    if (now > peak_) peak_ = now;
}

void BlockAllocator::insert_after(List& list, BlockId where, BlockId b) {
    const BlockId after = where >= 0 ? link(where).next : list.head;
    link(b).prev = where;
    link(b).next = after;
    (where >= 0 ? link(where).next : list.head) = b;
    (after >= 0 ? link(after).prev : list.tail) = b;
}

void BlockAllocator::unlink(List& list, BlockId b) {
    const BlockId before = link(b).prev;
    const BlockId after = link(b).next;
    (before >= 0 ? link(before).next : list.head) = after;
    (after >= 0 ? link(after).prev : list.tail) = before;
}

std::uint64_t BlockAllocator::address(BlockId b) const {
    if (bytes_ == 0)
        throw SequenceState(
            "block addresses were asked for, but no pool is bound where a block has one address; call bind_pool, use "
            "open_cache, or in a layer-major pool ask for a token's address");
    return base_ + static_cast<std::uint64_t>(b) * static_cast<std::uint64_t>(bytes_);
}

}  // namespace pagedkv
