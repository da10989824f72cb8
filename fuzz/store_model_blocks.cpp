// The part of the model that blocks are about: who holds them, in which order they are handed out, how they are lost.
#include <algorithm>

#include "store_model.hpp"

using pagedkv::BlockId;
using pagedkv::BlockState;

BlockState StoreModel::state(BlockId b) const {
    if (FreeLists::holds(lists.clean, b)) return BlockState::clean;
    if (FreeLists::holds(lists.cached, b)) return BlockState::cached;
    return FreeLists::holds(lists.pending, b) ? BlockState::pending : BlockState::in_use;
}

// Page-table entries that hold it, and pins.
std::int64_t StoreModel::refs(BlockId b) const {
    std::int64_t holders = block(b).pins;
    for (const auto& [id, s] : live) holders += std::count(s.table.begin(), s.table.end(), b);
    return holders;
}

bool StoreModel::shared_between(const ModelSequence& s, std::int64_t from, std::int64_t to) const {
    for (std::int64_t i = from / size; i < blocks_for(to); ++i)
        if (!writable_in_place(s, i, 0)) return true;
    return false;
}

// The last holder writes in place, but not over tokens that work in flight may still read for one that has ended.
bool StoreModel::writable_in_place(const ModelSequence& s, std::int64_t i, std::int64_t left) const {
    const BlockId b = s.table[static_cast<std::size_t>(i)];
    const std::int64_t own = std::max<std::int64_t>(0, s.length - i * size);
    return refs(b) - left <= 1 && (block(b).fill <= own || block(b).busy_until <= retired);
}

// Clean ones first, then whatever nobody has asked for the longest.
BlockId StoreModel::take() {
    BlockId b;
    if (!lists.clean.empty()) {
        b = lists.clean.back();
        lists.clean.pop_back();
    } else {
        demand(!lists.cached.empty(), "a block was handed out, and none was free");
        b = lists.cached.front();
        lists.remove(b);
        ++evictions;
        lose(b);
    }
    demand(block(b).pins == 0 && block(b).busy_until <= retired, "a block was handed out that somebody may touch");
    block(b) = ModelBlock{};
    return b;
}

void StoreModel::dropped(BlockId b, pagedkv::Step after) {
    block(b).busy_until = std::max(block(b).busy_until, after);
    if (refs(b) > 0) return;
    if (!block(b).published) block(b).fill = 0;
    if (block(b).busy_until <= retired) return to_free_list(b);
    const auto later = [&](BlockId other) { return block(other).busy_until > block(b).busy_until; };
    lists.pending.insert(std::find_if(lists.pending.begin(), lists.pending.end(), later), b);
}

void StoreModel::to_free_list(BlockId b) {
    if (block(b).published) lists.cached.push_back(b);
    else lists.clean.push_back(b);
}

void StoreModel::drop_blocks(ModelSequence& s, std::int64_t keep, pagedkv::Step after) {
    while (static_cast<std::int64_t>(s.table.size()) > keep) {
        const BlockId b = s.table.back();
        s.table.pop_back();
        dropped(b, after);
    }
    s.emitted = std::min(s.emitted, static_cast<std::int64_t>(s.table.size()));
}

// Tokens that only this sequence had are forgotten; findable ones and those that somebody may read are not.
void StoreModel::cut_fill(const ModelSequence& s, std::int64_t length) {
    for (std::int64_t i = length / size; i < std::min<std::int64_t>(blocks_for(s.length), capacity(s) / size); ++i) {
        const BlockId b = s.table[static_cast<std::size_t>(i)];
        if (refs(b) == 1 && !block(b).published && block(b).busy_until <= retired)
            block(b).fill = std::min(block(b).fill, std::max<std::int64_t>(0, length - i * size));
    }
}

void StoreModel::retire(pagedkv::Step step) {
    retired = std::max(retired, step);
    while (!lists.pending.empty() && block(lists.pending.front()).busy_until <= retired) {
        const BlockId b = lists.pending.front();
        lists.remove(b);
        to_free_list(b);
    }
}

void StoreModel::pin(BlockId b) {
    lists.remove(b);  // if it was free, it was findable, and comes back with its content
    if (block(b).pins++ == 0) block(b).kept = content(b);
}

void StoreModel::publish(BlockId b) {
    if (block(b).pins == 0 && !block(b).published) block(b).kept = content(b);
    block(b).published = true;
}

// Its content is lost, and with it what was below.
void StoreModel::lose(BlockId b) {
    block(b).published = false;
    for (const BlockId gone : contents.lose(b)) withdraw(gone);
}

void StoreModel::withdraw(BlockId b) {
    block(b).published = false;
    if (state(b) != BlockState::in_use) block(b).fill = 0;
    if (state(b) != BlockState::cached) return;
    lists.remove(b);
    lists.clean.push_back(b);
}

void StoreModel::unpublish(BlockId b) {
    lose(b);
    withdraw(b);
}

void StoreModel::write_over(ModelSequence& s, std::int64_t i) {
    ModelBlock& b = block(s.table[static_cast<std::size_t>(i)]);
    if (!b.published) return;
    lose(s.table[static_cast<std::size_t>(i)]);
    b.fill = std::min(b.fill, std::max<std::int64_t>(0, s.length - i * size));
}

bool StoreModel::forget_contents() {
    if (!live.empty()) return false;
    for (const BlockId gone : contents.lose_all()) withdraw(gone);
    return true;
}
