#include "stress_worker.hpp"

#include <algorithm>

using namespace calls;
using harness::below;
using Fit = pagedkv::SequenceStore::Fit;

StressWorker::StressWorker(pagedkv::KVCacheManager& manager, std::vector<std::int64_t>& memory, std::int64_t number)
    : manager_(manager),
      memory_(memory),
      first_id_(100 * (number + 1)),
      random_(static_cast<std::uint64_t>(number)),
      block_size_(manager.locked([](SequenceStore& store) { return store.options().block_size; })),
      next_token_((number + 1) << 40) {}

void StressWorker::run(std::int64_t operations) {
    for (std::int64_t i = 0; i < operations; ++i) {
        any_operation();
        if (i % 64 == 0) check_and_verify();
    }
    check_and_verify();
}

void StressWorker::any_operation() {
    switch (below(random_, 20)) {
        case 0:
        case 1: return admit_or_free();
        case 2: return reserve_and_commit();
        case 3: return truncate_owned();
        case 4:
        case 5: return meddle_with_common();
        case 6: return pin_or_unpin();
        case 7: return allocate_or_free();
        case 8: return export_all();
        case 9: return retire();
        case 10: return fork_owned();
        case 11:
        case 12: return reorder_owned();
        case 13: return free_owned();
        default: return grow_owned();
    }
}

template <class Work>
bool StressWorker::attempt(Work&& work) {
    try {
        manager_.locked(work);
        return true;
    } catch (const pagedkv::OutOfBlocks&) {
        ++refusals_;
        return false;
    }
}

Ids StressWorker::some_owned() {
    Ids ids;
    for (const auto& [id, tokens] : tokens_)
        if (below(random_, 2) == 0) ids.push_back(id);
    return ids;
}

void StressWorker::admit_or_free() {
    const SeqId id = first_id_ + below(random_, kOwned);
    if (tokens_.contains(id)) {
        const auto after = below(random_, 2) == 0 ? std::optional(newest_plan_) : std::nullopt;
        manager_.locked([&](SequenceStore& store) { store.free(Ids{id}, after); });
        tokens_.erase(id);
    } else if (attempt([&](SequenceStore& store) { admit(store, id, 9, below(random_, 10)); })) {
        tokens_[id] = {};
    }
}

void StressWorker::write_tokens(SeqId id, std::span<const std::int64_t> slots) {
    for (const std::int64_t slot : slots) {
        tokens_[id].push_back(next_token_);
        memory_[static_cast<std::size_t>(slot)] = next_token_++;
    }
}

void StressWorker::write(const StepPlan& plan, const Ids& ids, const Ids& counts) {
    ++plans_;
    newest_plan_ = plan.step;
    const std::span<const std::int64_t> slots = plan.slots();
    std::size_t next = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(plan.counts().served); ++i) {
        write_tokens(ids[i], slots.subspan(next, static_cast<std::size_t>(counts[i])));
        next += static_cast<std::size_t>(counts[i]);
        CHECK_EQ(std::int64_t{plan.lengths()[i]}, length(ids[i]));
    }
    CHECK_EQ(next, slots.size());
}

void StressWorker::grow_owned() {
    const Ids ids = some_owned();
    Ids counts;
    for (std::size_t i = 0; i < ids.size(); ++i) counts.push_back(below(random_, 4));
    const Fit fit = below(random_, 2) == 0 ? Fit::partial : Fit::whole;
    StepPlan plan;
    const auto grow = [&](SequenceStore& store) {
        store.append(ids, counts, std::nullopt, fit, plan);
        copy_blocks(plan);
    };
    if (attempt(grow)) write(plan, ids, counts);
}

void StressWorker::reserve_and_commit() {
    const Ids ids = some_owned();
    Ids upto;
    for (const SeqId id : ids) upto.push_back(length(id) + below(random_, 6));
    StepPlan plan;
    const auto grow = [&](SequenceStore& store) {
        store.reserve(ids, upto, plan);
        copy_blocks(plan);
    };
    if (!attempt(grow)) return;
    ++plans_;
    for (std::size_t i = 0; i < ids.size(); ++i) {
        Ids slots(static_cast<std::size_t>(upto[i] - length(ids[i])));
        manager_.locked([&](SequenceStore& store) {
            const Ids start = {length(ids[i])}, stop = {upto[i]};
            store.slot_count(Ids{ids[i]}, SequenceStore::Ids(start), SequenceStore::Ids(stop));
            store.slot_mapping(slots);
        });
        write_tokens(ids[i], slots);
    }
    manager_.locked([&](SequenceStore& store) { store.commit(ids, upto, std::nullopt); });
}

void StressWorker::truncate_owned() {
    const Ids ids = some_owned();
    Ids lengths;
    for (const SeqId id : ids) {
        lengths.push_back(below(random_, length(id) + 1));
        tokens_[id].resize(static_cast<std::size_t>(lengths.back()));
    }
    const bool keep = below(random_, 2) == 0;
    manager_.locked([&](SequenceStore& store) { store.truncate(ids, lengths, keep); });
}

void StressWorker::meddle_with_common() {
    const SeqId id = common();
    const std::int64_t amount = below(random_, 5), what = below(random_, 7);
    try {
        manager_.locked([&](SequenceStore& store) {
            switch (what) {
                case 0: admit(store, id, amount); break;
                case 1: append(store, {id, (id + 1) % 4}, {amount, 1}), ++plans_; break;
                case 2: reserve(store, {id}, {3 * amount}), ++plans_; break;
                case 3: store.truncate(Ids{id}, Ids{amount}, true); break;
                case 4: fork(store, id, {(id + 1) % 4, (id + 2) % 4}); break;
                case 5: reorder(store, {id, (id + 1) % 4}, {1, amount % 2}), ++plans_; break;
                default: store.free(Ids{id}, store.last_step());
            }
        });
    } catch (const pagedkv::Error&) {
        ++refusals_;
    }
}

// A pin on a block of a common sequence: the next write there must copy it. The block is published now and then.
void StressWorker::pin_or_unpin() {
    if (!pins_.empty() && below(random_, 2) == 0) {
        manager_.locked([&](SequenceStore& store) { store.allocator().free(pins_); });
        pins_.clear();
        return;
    }
    const SeqId id = common();
    const bool publish = below(random_, 2) == 0;
    manager_.locked([&](SequenceStore& store) {
        if (store.row_of(id) < 0 || store.sequence(id).table.size() == 0) return;
        const Ids block = {entries(store, id).back()};
        if (publish) store.allocator().publish(block);
        store.allocator().increment_ref(block);
        pins_.push_back(block[0]);
    });
}

// The allocator's own callers lock by hand, as the binding does.
void StressWorker::allocate_or_free() {
    const std::lock_guard<std::mutex> guard(manager_.mutex());
    auto& blocks = manager_.allocator();
    if (blocks.available() < 3) return;
    for (const BlockId b : allocate(blocks, 1 + below(random_, 3))) pins_.push_back(b);
}

void StressWorker::export_all() {
    const Ids ids = some_owned();
    manager_.locked([&](SequenceStore& store) {
        std::vector<std::int32_t> lengths(ids.size()), indptr(ids.size() + 1), last(ids.size());
        store.seq_lens(ids, lengths);
        for (std::size_t i = 0; i < ids.size(); ++i) CHECK_EQ(std::int64_t{lengths[i]}, length(ids[i]));
        std::vector<std::int32_t> table(ids.size() * static_cast<std::size_t>(store.table_width(ids)));
        store.block_table(ids, table, store.table_width(ids), -1);
        std::vector<std::int32_t> indices(static_cast<std::size_t>(store.csr_pages(ids)));
        store.csr(indptr, indices, last);
        const pagedkv::CacheStats s = store.stats();
        CHECK_EQ(s.clean_blocks + s.cached_blocks + s.in_use_blocks + s.pending_blocks, s.total_blocks);
        CHECK_EQ(static_cast<std::int64_t>(store.seq_ids().size()), s.active_sequences);
    });
}

void StressWorker::retire() {
    const std::int64_t behind = below(random_, 8);
    manager_.locked([&](SequenceStore& store) { store.retire(std::max<std::int64_t>(0, store.last_step() - behind)); });
}

void StressWorker::check_and_verify() {
    for (const auto& owned : tokens_) {
        const Ids& tokens = owned.second;
        Ids slots(tokens.size());
        manager_.locked([&](SequenceStore& store) {
            CHECK_EQ(store.slot_count(Ids{owned.first}, std::nullopt, std::nullopt), static_cast<std::int64_t>(tokens.size()));
            store.slot_mapping(slots);
        });
        for (std::size_t i = 0; i < tokens.size(); ++i) CHECK_EQ(memory_[static_cast<std::size_t>(slots[i])], tokens[i]);
    }
    manager_.locked([](SequenceStore& store) { store.check(); });
}

void StressWorker::give_everything_back() {
    manager_.locked([&](SequenceStore& store) {
        store.allocator().free(pins_);
        for (const auto& [id, tokens] : tokens_) store.free(Ids{id}, std::nullopt);
    });
    pins_.clear();
    tokens_.clear();
}
