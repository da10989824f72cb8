// The allocator's checked side: references that callers outside hold on blocks ("pins"), and publication.
#include "pagedkv/block_allocator.hpp"
#include "pagedkv/errors.hpp"

namespace pagedkv {

namespace {
const char* name(BlockState s) {
    switch (s) {
        case BlockState::clean: return "clean";
        case BlockState::cached: return "cached";
        case BlockState::in_use: return "in use";
        default: return "pending";
    }
}
}  // namespace

BlockId BlockAllocator::checked(std::int64_t id) const {
    if (id < 0 || id >= total_)
        throw InvalidArgument(join("block ", id, " does not exist; this pool has blocks 0 to ", total_ - 1));
    return static_cast<BlockId>(id);
}

void BlockAllocator::require(std::int64_t count) const {
    if (count < 0) throw InvalidArgument(join("count is ", count, "; ask for 0 or more blocks"));
    if (count > total_)
        throw NeverFits(join(count, " blocks asked, the whole pool has ", total_, "; use a larger pool"), count, total_);
    if (count > available())
        throw OutOfBlocks(join(count, " blocks asked, ", available(), " available and ", pending_,
                               " pending; free sequences or retire finished steps, then try again"),
                          count, available(), pending_);
}

void BlockAllocator::allocate(std::int64_t count, std::span<BlockId> out) {
    require(count);
    for (BlockId& b : out) {
        b = take();
        pins_[at(b)] = 1;
        ++pinned_only_;
    }
    note_peak();
}

void BlockAllocator::increment_ref(std::span<const std::int64_t> ids) {
    for (const std::int64_t id : ids) {
        const BlockId b = checked(id);
        if (state(b) != BlockState::in_use && !published(b))
            throw SequenceState(
                join("block ", id, " is ", name(state(b)), " and holds nothing findable; allocate a block before sharing it"));
        if (pins(b) > kMostHolders - static_cast<std::int64_t>(ids.size()))
            throw InvalidArgument(
                join("block ", id, " has ", pins(b), " references from outside; ", kMostHolders, " is the most"));
    }
    for (const std::int64_t id : ids) {
        const auto b = static_cast<BlockId>(id);
        if (state(b) != BlockState::in_use) {
            revive(b);
            ++pinned_only_;
        }
        ++word(b).refs;
        ++pins_[at(b)];
    }
    note_peak();
}

void BlockAllocator::free(std::span<const std::int64_t> ids) {
    for (const std::int64_t id : ids) checked(id);
    for (std::size_t i = 0; i < ids.size(); ++i) {
        std::int32_t& pins = pins_[at(static_cast<BlockId>(ids[i]))];
        if (pins > 0) {
            --pins;
            continue;
        }
        for (std::size_t k = 0; k < i; ++k) ++pins_[at(static_cast<BlockId>(ids[k]))];
        const auto b = static_cast<BlockId>(ids[i]);
        throw SequenceState(join("free drops more references of block ", b, " than the caller holds (", pins_[at(b)],
                                 "; the block is ", name(state(b)), ", ", refs(b),
                                 " references in all); free each reference once"));
    }
    // The last one named counts as the deepest, so it is released first and the first is handed out first.
    for (std::size_t i = ids.size(); i-- > 0;) {
        const auto b = static_cast<BlockId>(ids[i]);
        Word& w = word(b);
        if (--w.refs > 0) continue;
        --pinned_only_;
        drop(b, 0);
    }
}

void BlockAllocator::publish(std::span<const std::int64_t> ids) {
    if (owner_ != nullptr)
        throw SequenceState("this manager publishes blocks by itself; commit full blocks whose token ids are known");
    for (const std::int64_t id : ids) {
        const BlockId b = checked(id);
        if (state(b) != BlockState::in_use)
            throw SequenceState(join("block ", id, " is ", name(state(b)), "; only a block in use can be published"));
    }
    for (const std::int64_t id : ids) mark_published(static_cast<BlockId>(id), false);
}

void BlockAllocator::unpublish(std::span<const std::int64_t> ids) {
    for (const std::int64_t id : ids)
        if (state(checked(id)) == BlockState::clean)
            throw SequenceState(join("block ", id, " is clean: it holds nothing that could be unpublished"));
    for (const std::int64_t id : ids) {
        const auto b = static_cast<BlockId>(id);
        if (published(b) && owner_ != nullptr) owner_->lost(b);
        withdraw(b);
    }
}

}  // namespace pagedkv
