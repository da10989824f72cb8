// One thread of the stress test. It owns some sequences, whose tokens it knows, and meddles with sequences that all threads
// use, where any typed refusal is fine.
//
// The tokens of owned sequences are written to memory outside the lock, and blocks are copied there, as an engine's
// kernels do: if a block were ever handed to two threads, ThreadSanitizer would see two writes, and without it the tokens
// would be wrong. Owned sequences share blocks with one another only.
#pragma once

#include <functional>
#include <map>

#include "harness.hpp"
#include "pagedkv/manager.hpp"
#include "store_calls.hpp"

class StressWorker {
public:
    StressWorker(pagedkv::KVCacheManager& manager, std::vector<std::int64_t>& memory, std::int64_t number);

    void run(std::int64_t operations);
    void give_everything_back();
    std::int64_t plans() const { return plans_; }
    std::int64_t refusals() const { return refusals_; }

private:
    using Ids = calls::Ids;

    static constexpr std::int64_t kOwned = 8;

    void any_operation();
    void admit_or_free();
    void grow_owned();
    void reserve_and_commit();
    void truncate_owned();
    void meddle_with_common();
    void fork_owned();
    void reorder_owned();
    void free_owned();
    void pin_or_unpin();
    void allocate_or_free();
    void export_all();
    void retire();
    void check_and_verify();

    template <class Work>
    bool attempt(Work&& work);  // false: refused for lack of blocks
    void write(const pagedkv::StepPlan& plan, const Ids& ids, const Ids& counts);
    void write_tokens(pagedkv::SeqId id, std::span<const std::int64_t> slots);
    void copy_blocks(const pagedkv::StepPlan& plan);
    std::int64_t length(pagedkv::SeqId id) { return static_cast<std::int64_t>(tokens_[id].size()); }
    Ids some_owned();
    pagedkv::SeqId common() { return harness::below(random_, 4); }

    pagedkv::KVCacheManager& manager_;
    std::vector<std::int64_t>& memory_;
    pagedkv::SeqId first_id_;
    harness::Random random_;
    std::map<pagedkv::SeqId, Ids> tokens_;  // of the owned sequences that live
    std::int64_t block_size_, next_token_;
    std::vector<std::int64_t> pins_;
    pagedkv::Step newest_plan_ = 0;
    std::int64_t plans_ = 0, refusals_ = 0;
};
