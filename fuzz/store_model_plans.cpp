// The part of the model that plans are about: shared tables, copies, table updates, and the memory that they describe.
#include <algorithm>

#include "store_model.hpp"

using pagedkv::BlockId;
using pagedkv::SeqId;

namespace {
void report(ExpectedPlan& plan, const ModelSequence& s, std::size_t column) {
    plan.updates.insert(plan.updates.end(), {s.row, static_cast<std::int32_t>(column), s.table[column]});
}
}  // namespace

void StoreModel::need(BatchNeed& batch, const ModelSequence& s, std::int64_t upto) const {
    const auto entries = static_cast<std::int64_t>(s.table.size());
    batch.blocks += std::max<std::int64_t>(0, blocks_for(upto) - entries);
    if (upto <= s.length) return;
    for (std::int64_t i = s.length / size; i < std::min(entries, blocks_for(upto)); ++i) {
        const BlockId b = s.table[static_cast<std::size_t>(i)];
        if (writable_in_place(s, i, batch.left[b])) continue;
        ++batch.left[b];
        ++batch.blocks;
    }
}

// `now` is the store's table afterwards: new blocks under what had to be copied and behind the old end, else unchanged.
void StoreModel::grow(ModelSequence& s, std::span<const BlockId> now, std::int64_t upto, ExpectedPlan& plan) {
    const std::size_t before = s.table.size();
    const auto wanted = static_cast<std::size_t>(std::max<std::int64_t>(0, blocks_for(upto)));
    demand(now.size() == std::max(before, wanted), "entries after growth");
    const std::size_t first = upto > s.length ? static_cast<std::size_t>(s.length / size) : before;
    for (std::size_t i = 0; i < now.size(); ++i) {
        const auto column = static_cast<std::int64_t>(i);
        const bool written = i >= first && i < std::min(before, wanted);
        const bool copied = written && !writable_in_place(s, column, 0);
        if (written && !copied) write_over(s, column);
        if (copied) {
            const BlockId old = s.table[i];
            s.table[i] = take();
            block(s.table[i]).fill = std::max<std::int64_t>(0, s.length - column * size);
            dropped(old, 0);
            plan.copies.insert(plan.copies.end(), {old, s.table[i]});
        } else if (i >= before) {
            s.table.push_back(take());
        }
        demand(now[i] == s.table[i], "a table entry is not the next free block, or changed without need");
        if (copied || i >= static_cast<std::size_t>(s.emitted)) report(plan, s, i);
    }
}

// What a sequence is that becomes `parent`, on a row of its own.
ModelSequence StoreModel::copy_of(const ModelSequence& parent) const {
    ModelSequence copy = parent;
    copy.table.resize(static_cast<std::size_t>(blocks_for(parent.length)));
    return copy;
}

void StoreModel::fork(SeqId parent, const Ids& children) {
    for (const SeqId id : children) {
        ModelSequence child = copy_of(live.at(parent));
        child.row = lowest_free_row();
        child.emitted = 0;
        live[id] = child;
    }
}

// Each one in turn drops what it does not keep in its place, deepest first, when all have taken what they need.
void StoreModel::release_moved(const std::vector<ModelSequence>& old, const std::vector<ModelSequence>& now) {
    std::vector<BlockId> gone;
    for (std::size_t i = 0; i < old.size(); ++i)
        for (std::size_t k = old[i].table.size(); k-- > 0;)
            if (k >= now[i].table.size() || now[i].table[k] != old[i].table[k]) gone.push_back(old[i].table[k]);
    for (std::size_t i = 0; i < gone.size(); ++i)
        if (std::find(gone.begin() + static_cast<std::ptrdiff_t>(i) + 1, gone.end(), gone[i]) == gone.end())
            dropped(gone[i], 0);
}

void StoreModel::reorder(const Ids& ids, const Ids& parents, ExpectedPlan& plan) {
    std::vector<ModelSequence> old, now;
    for (const SeqId id : ids) old.push_back(live.at(id));
    for (std::size_t i = 0; i < ids.size(); ++i) {
        const auto parent = static_cast<std::size_t>(parents[i]);
        ModelSequence s = parent == i ? old[i] : copy_of(old[parent]);
        s.row = old[i].row;
        for (std::size_t k = 0; k < s.table.size(); ++k)
            if (k >= static_cast<std::size_t>(old[i].emitted) || old[i].table[k] != s.table[k]) report(plan, s, k);
        s.emitted = static_cast<std::int64_t>(s.table.size());
        live.at(ids[i]) = s;
        now.push_back(s);
    }
    release_moved(old, now);
}

void StoreModel::apply(const pagedkv::StepPlan& plan, const ExpectedPlan& expected) {
    demand(plan.step == last_step + 1, "steps count up by one");
    const auto c = plan.copies(), u = plan.updates();
    demand(std::equal(c.begin(), c.end(), expected.copies.begin(), expected.copies.end()), "copies in the plan");
    demand(std::equal(u.begin(), u.end(), expected.updates.begin(), expected.updates.end()), "table updates in the plan");
    for (std::size_t i = 0; i < c.size(); i += 2) {
        for (std::size_t k = 1; k < c.size(); k += 2) demand(c[i] != c[k], "a copy reads what the same plan writes");
        std::copy_n(memory_.begin() + c[i] * size, size, memory_.begin() + c[i + 1] * size);
        ++copies;
    }
    for (std::size_t i = 0; i < u.size(); i += 3) device_tables_[u[i]][u[i + 1]] = u[i + 2];
    check_device_tables(plan);
    last_step = plan.step;
}

void StoreModel::check_device_tables(const pagedkv::StepPlan& plan) {
    for (const pagedkv::Row row : plan.rows())
        for (const auto& [id, s] : live)
            if (s.row == row)
                for (std::size_t k = 0; k < s.table.size(); ++k)
                    demand(device_tables_[row][static_cast<std::int32_t>(k)] == s.table[k],
                           "the device's block table is stale");
}

// Tokens whose ids are known are those; what the others are, nobody but the memory knows yet.
void StoreModel::write(ModelSequence& s, std::int64_t from, std::int64_t to) {
    s.tokens.resize(static_cast<std::size_t>(to));
    for (std::int64_t p = from; p < to; ++p) {
        const BlockId b = s.table[static_cast<std::size_t>(p / size)];
        const auto number = static_cast<std::int64_t>(token_ids.size());
        token_ids.push_back(p < s.known() ? s.ids[static_cast<std::size_t>(p)] : new_id(p));
        s.tokens[static_cast<std::size_t>(p)] = number;
        memory_[static_cast<std::size_t>(b * size + p % size)] = number;
        block(b).fill = std::max(block(b).fill, p % size + 1);
    }
}
