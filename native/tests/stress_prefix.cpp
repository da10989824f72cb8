#include "stress_prefix.hpp"

#include <algorithm>

using namespace calls;
using harness::below;
using Fit = pagedkv::SequenceStore::Fit;

PrefixWorker::PrefixWorker(pagedkv::KVCacheManager& manager, std::vector<std::int64_t>& memory, std::int64_t number)
    : manager_(manager),
      memory_(memory),
      first_id_(100 * (number + 1)),
      random_(static_cast<std::uint64_t>(number) + 50),
      block_size_(manager.locked([](SequenceStore& store) { return store.options().block_size; })) {}

void PrefixWorker::run(std::int64_t operations) {
    for (std::int64_t i = 0; i < operations; ++i) {
        any_operation();
        if (i % 128 == 0) manager_.locked([](SequenceStore& store) { store.check(); });
    }
}

void PrefixWorker::any_operation() {
    switch (below(random_, 16)) {
        case 0:
        case 1:
        case 2:
        case 3: return admit_one();
        case 4:
        case 5: return free_one();
        case 6: return fork_one();
        case 7: return cut();
        case 8: return look_up();
        case 9: return follow();
        case 10: return retire();
        case 11: return forget();
        default: return decode();
    }
}

// Two tenants, one image or none, four beginnings that go on in three ways.
PrefixWorker::Served PrefixWorker::some_prompt() {
    Served s;
    const std::int64_t salt = below(random_, 2), image = below(random_, 3), start = below(random_, 4);
    s.request.salt = salt == 0 ? "" : "tenant";
    if (image == 1) s.request.covers = {{1, 3, "image"}};
    s.seed = 2 * salt + (image == 1 ? 1 : 0);
    const std::int64_t count = 6 + below(random_, 14), parting = below(random_, count), way = below(random_, 3);
    for (std::int64_t p = 0; p < count; ++p) s.request.tokens.push_back(static_cast<std::int32_t>(p < parting ? start : way));
    return s;
}

std::vector<std::int64_t> PrefixWorker::right_numbers(const Served& s) const {
    std::vector<std::int64_t> numbers;
    std::uint64_t chain = static_cast<std::uint64_t>(s.seed) + 1;
    for (const std::int32_t token : s.request.tokens) {
        chain = (chain + static_cast<std::uint64_t>(token) + 1) * 0x9E3779B97F4A7C15ULL;
        numbers.push_back(static_cast<std::int64_t>(chain));
    }
    return numbers;
}

void PrefixWorker::read(const Served& s) {
    const std::vector<std::int64_t> right = right_numbers(s);
    for (std::size_t p = 0; p < s.slots.size(); ++p) CHECK_EQ(memory_[static_cast<std::size_t>(s.slots[p])], right[p]);
}

// Copies are carried out with their plan, before anybody's next one, as a stream does. Where the older tokens lie is
// asked again, since copies move them.
StepPlan PrefixWorker::grow(SequenceStore& store, SeqId id, std::int64_t count, const std::optional<Int32s>& ids) {
    StepPlan plan = append(store, {id}, {count}, ids);
    const auto copies = plan.copies();
    for (std::size_t i = 0; i < copies.size(); i += 2)
        std::copy_n(memory_.begin() + copies[i] * block_size_, block_size_, memory_.begin() + copies[i + 1] * block_size_);
    return plan;
}

void PrefixWorker::write(SeqId id, Served& s, const StepPlan& plan) {
    newest_plan_ = plan.step;
    const std::size_t before = s.slots.size();
    s.slots.resize(before + plan.slots().size());
    manager_.locked([&](SequenceStore& store) {
        CHECK_EQ(store.slot_count(Ids{id}, std::nullopt, std::nullopt), static_cast<std::int64_t>(s.slots.size()));
        store.slot_mapping(s.slots);
    });
    const std::vector<std::int64_t> right = right_numbers(s);
    for (std::size_t p = before; p < s.slots.size(); ++p) memory_[static_cast<std::size_t>(s.slots[p])] = right[p];
}

void PrefixWorker::admit_one() {
    const SeqId id = first_id_ + below(random_, kOwned);
    if (live_.contains(id)) return;
    Served s = some_prompt();
    try {
        const std::int64_t cached = manager_.locked([&](SequenceStore& store) {
            const pagedkv::Admission a = admit(store, id, s.request);
            s.slots.resize(static_cast<std::size_t>(a.cached_tokens));
            store.slot_count(Ids{id}, std::nullopt, std::nullopt);
            store.slot_mapping(s.slots);
            return a.cached_tokens;
        });
        CHECK(cached % block_size_ == 0 && cached < static_cast<std::int64_t>(s.request.tokens.size()));
    } catch (const pagedkv::OutOfBlocks&) {
        ++refusals_;
        return;
    }
    read(s);
    prefill(id, s);
    live_[id] = s;
}

void PrefixWorker::prefill(SeqId id, Served& s) {
    const auto count = static_cast<std::int64_t>(s.request.tokens.size());
    const auto length = static_cast<std::int64_t>(s.slots.size());
    write(id, s, manager_.locked([&](SequenceStore& store) { return grow(store, id, count - length); }));
    manager_.locked([&](SequenceStore& store) { commit(store, {id}, {count}); });
}

void PrefixWorker::decode() {
    const SeqId id = one();
    if (id < 0) return;
    Served& s = live_[id];
    const Int32s more(static_cast<std::size_t>(1 + below(random_, 3)), static_cast<std::int32_t>(below(random_, 3)));
    try {
        const StepPlan plan = manager_.locked(
            [&](SequenceStore& store) { return grow(store, id, static_cast<std::int64_t>(more.size()), more); });
        s.request.tokens.insert(s.request.tokens.end(), more.begin(), more.end());
        write(id, s, plan);
    } catch (const pagedkv::OutOfBlocks&) {
        ++refusals_;
        return free_one();
    }
    manager_.locked([&](SequenceStore& store) { commit(store, {id}, {static_cast<std::int64_t>(s.slots.size())}); });
    read(s);
}

void PrefixWorker::fork_one() {
    const SeqId parent = one(), child = first_id_ + below(random_, kOwned);
    if (parent < 0 || live_.contains(child)) return;
    manager_.locked([&](SequenceStore& store) { fork(store, parent, {child}); });
    live_[child] = live_[parent];
}

// Rejected drafts. One cut under its image publishes nothing more; it goes on all the same.
void PrefixWorker::cut() {
    const SeqId id = one();
    if (id < 0) return;
    Served& s = live_[id];
    const std::int64_t length = below(random_, static_cast<std::int64_t>(s.slots.size()) + 1);
    const bool keep = below(random_, 2) == 0;
    manager_.locked([&](SequenceStore& store) { store.truncate(Ids{id}, Ids{length}, keep); });
    if (length < static_cast<std::int64_t>(s.slots.size())) ++cut_short_;
    s.slots.resize(static_cast<std::size_t>(length));
    s.request.tokens.resize(static_cast<std::size_t>(length));
    // What comes next is no image; a block that began under it has the store's word for it, so end this one.
    if (!s.request.covers.empty() && length < 3) {
        manager_.locked([&](SequenceStore& store) { store.free(Ids{id}, std::nullopt); });
        live_.erase(id);
    }
}

void PrefixWorker::free_one() {
    const SeqId id = one();
    if (id < 0) return;
    const auto after = below(random_, 2) == 0 ? std::optional(newest_plan_) : std::nullopt;
    read(live_[id]);
    manager_.locked([&](SequenceStore& store) { store.free(Ids{id}, after); });
    live_.erase(id);
}

void PrefixWorker::look_up() {
    const Served s = some_prompt();
    const std::int64_t found = manager_.locked([&](SequenceStore& store) { return lookup(store, s.request); });
    CHECK(found >= 0 && found < static_cast<std::int64_t>(s.request.tokens.size()));
}

void PrefixWorker::follow() {
    const pagedkv::EventBatch batch = manager_.locked([](SequenceStore& store) { return store.drain_events(); });
    CHECK_EQ(batch.serials.size(), batch.kinds.size());
    CHECK_EQ(batch.token_starts.size(), batch.kinds.size());
}

void PrefixWorker::retire() {
    const std::int64_t behind = below(random_, 8);
    manager_.locked([&](SequenceStore& store) { store.retire(std::max<std::int64_t>(0, store.last_step() - behind)); });
}

// Mostly refused, since somebody lives; a block taken out by hand is a miss for everybody.
void PrefixWorker::forget() {
    const std::int64_t block = below(random_, 64);
    manager_.locked([&](SequenceStore& store) {
        if (below(random_, 8) == 0) store.reset_prefix_cache();
        if (store.allocator().state(static_cast<BlockId>(block)) != pagedkv::BlockState::clean && below(random_, 8) == 0)
            store.allocator().unpublish(Ids{block});
    });
}

SeqId PrefixWorker::one() {
    if (live_.empty()) return -1;
    auto chosen = live_.begin();
    std::advance(chosen, below(random_, static_cast<std::int64_t>(live_.size())));
    return chosen->first;
}

void PrefixWorker::give_everything_back() {
    for (const auto& [id, s] : live_) {
        read(s);
        manager_.locked([&, gone = id](SequenceStore& store) { store.free(Ids{gone}, std::nullopt); });
    }
    live_.clear();
}
