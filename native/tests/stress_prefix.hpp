// One thread of the prefix cache's stress test. All threads serve the same few prompts, so blocks that one has computed
// are read by others, evicted, and written by a third.
//
// What is written for a token stands for everything before it too. Tokens are written and read outside the lock, as an
// engine's kernels do: a block that is found and does not hold what its content says, or is written while somebody reads
// it, is a wrong number here and a race under ThreadSanitizer.
#pragma once

#include <map>

#include "harness.hpp"
#include "pagedkv/manager.hpp"
#include "store_calls.hpp"

class PrefixWorker {
public:
    PrefixWorker(pagedkv::KVCacheManager& manager, std::vector<std::int64_t>& memory, std::int64_t number);

    void run(std::int64_t operations);
    void give_everything_back();
    std::int64_t refusals() const { return refusals_; }
    std::int64_t cut_short() const { return cut_short_; }

private:
    struct Served {
        calls::Request request;           // all ids so far
        std::int64_t seed = 0;            // of what is written: its salt and digest
        std::vector<std::int64_t> slots;  // where each token so far was written
    };

    static constexpr std::int64_t kOwned = 8;

    void any_operation();
    void admit_one();
    void prefill(pagedkv::SeqId id, Served& s);
    void decode();
    void fork_one();
    void cut();
    void free_one();
    void look_up();
    void follow();
    void retire();
    void forget();

    Served some_prompt();
    std::vector<std::int64_t> right_numbers(const Served& s) const;
    pagedkv::StepPlan grow(pagedkv::SequenceStore& store, pagedkv::SeqId id, std::int64_t count,
                           const std::optional<calls::Int32s>& ids = std::nullopt);
    void write(pagedkv::SeqId id, Served& s, const pagedkv::StepPlan& plan);
    void read(const Served& s);
    pagedkv::SeqId one();

    pagedkv::KVCacheManager& manager_;
    std::vector<std::int64_t>& memory_;
    pagedkv::SeqId first_id_;
    harness::Random random_;
    std::map<pagedkv::SeqId, Served> live_;
    std::int64_t block_size_;
    pagedkv::Step newest_plan_ = 0;
    std::int64_t refusals_ = 0, cut_short_ = 0;
};
