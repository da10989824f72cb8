#include <limits>

#include "harness.hpp"
#include "store_calls.hpp"
#include "store_operations.hpp"

using namespace calls;
using pagedkv::Admission;
using Fit = pagedkv::SequenceStore::Fit;

namespace {

StoreOperation admission(const char* name, SeqId id, std::int64_t prompt, std::optional<std::int64_t> reserve,
                         bool allocates = true) {
    const auto run = [=](SequenceStore& store, Injection& inject) {
        const Int32s tokens = some_ids(prompt);
        const Prompt asked{prompt, tokens, {}, {}};
        Admission out;
        inject([&] { store.admit(id, asked, {reserve, std::nullopt}, out); });
        inject.result = pagedkv::join(out.seq_id, " ", out.row, " ", out.cached_tokens);
    };
    return {name, run, allocates};
}

using Ask = std::function<std::int64_t(std::int64_t length)>;

enum class Batch { live, live_and_unknown, live_and_first_again };

Ids named(const SequenceStore& store, Batch batch) {
    Ids ids = store.seq_ids();
    if (batch == Batch::live_and_unknown) ids.push_back(-77);
    if (batch == Batch::live_and_first_again && !ids.empty()) ids.push_back(ids[0]);
    return ids;
}

// A whole batch, each sequence asking for what `ask` says.
StoreOperation appending(const char* name, Ask ask, Fit fit, bool with_ids = false, Batch batch = Batch::live) {
    const auto run = [=](SequenceStore& store, Injection& inject) {
        const Ids ids = named(store, batch);
        Ids counts;
        std::int64_t sum = 0;
        for (const SeqId id : ids) {
            counts.push_back(ask(store.row_of(id) >= 0 ? store.sequence(id).table.tokens() : 0));
            sum += with_ids ? counts.back() : 0;
        }
        StepPlan plan;
        const auto tokens = with_ids ? std::optional(some_ids(sum)) : std::nullopt;
        inject([&] { store.append(ids, counts, token_ids(tokens), fit, plan); });
        inject.result = plan.to_bytes();
    };
    return {name, run};
}

StoreOperation reserving(const char* name, std::int64_t beyond) {
    const auto run = [=](SequenceStore& store, Injection& inject) {
        const Ids ids = store.seq_ids();
        Ids upto;
        for (const SeqId id : ids) upto.push_back(store.sequence(id).table.tokens() + beyond);
        StepPlan plan;
        inject([&] { store.reserve(ids, upto, plan); });
        inject.result = plan.to_bytes();
    };
    return {name, run};
}

}  // namespace

std::vector<StoreOperation> growth_operations() {
    static constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();
    return {
        admission("admit", -9, 2, std::nullopt),
        admission("admit, unknown prompt", -9, 0, 4),
        admission("admit without blocks", -9, 5, 0),
        admission("admit a long prompt", -9, 14, std::nullopt),
        admission("admit a live id", 5, 1, std::nullopt),
        admission("admit what never fits", -9, huge, std::nullopt),
        admission("admit a negative reserve", -9, 1, -1),
        appending(
            "append 1", [](auto) { return 1; }, Fit::whole),
        appending(
            "append 9", [](auto) { return 9; }, Fit::whole),
        appending(
            "append 9 as far as it fits", [](auto) { return 9; }, Fit::partial),
        appending(
            "append 2 as far as it fits", [](auto) { return 2; }, Fit::partial),
        appending(
            "append unequal counts", [](auto length) { return length % 4; }, Fit::whole),
        appending(
            "append with ids", [](auto) { return 2; }, Fit::whole, true),
        appending(
            "append 9 with ids", [](auto) { return 9; }, Fit::whole, true),
        appending(
            "append to an unknown sequence", [](auto) { return 1; }, Fit::whole, false, Batch::live_and_unknown),
        appending(
            "append to one sequence twice", [](auto) { return 1; }, Fit::whole, false, Batch::live_and_first_again),
        appending(
            "append a negative count", [](auto) { return -1; }, Fit::whole),
        appending(
            "append what never fits", [](auto) { return huge; }, Fit::partial),
        reserving("reserve nothing", 0),
        reserving("reserve 1", 1),
        reserving("reserve 8", 8),
        reserving("reserve what never fits", std::numeric_limits<std::int32_t>::max()),
    };
}
