#include "harness.hpp"
#include "store_calls.hpp"
#include "store_operations.hpp"

using namespace calls;

namespace {

// Long enough that no string keeps them within itself.
const std::string kTenant(50, 't'), kImage(60, 'i'), kOther(70, 'o');

Request covered(std::int64_t tokens) { return {some_ids(tokens), kTenant, {{1, 3, kImage}, {3, 4, kOther}}}; }

StoreOperation admitting(const char* name, const Request& request, const SequenceStore::Admit& how = {}) {
    const auto run = [=](SequenceStore& store, Injection& inject) {
        const Prompt asked = request.prompt();
        pagedkv::Admission out;
        inject([&] { store.admit(-9, asked, how, out); });
        inject.result = pagedkv::join(out.seq_id, " ", out.row, " ", out.cached_tokens);
    };
    return {name, run};
}

StoreOperation looking_up(const char* name, const Request& request, std::optional<std::int64_t> most = std::nullopt,
                          bool allocates = true) {
    const auto run = [=](SequenceStore& store, Injection& inject) {
        const Prompt asked = request.prompt();
        std::int64_t found = 0;
        inject([&] { found = store.lookup(asked, most); });
        inject.result = std::to_string(found);
    };
    return {name, run, allocates};
}

void drain(SequenceStore& store, Injection& inject) {
    pagedkv::EventBatch batch;
    inject([&] { batch = store.drain_events(); });
    inject.result = harness::shown(batch.kinds) + harness::shown(batch.serials) + harness::shown(batch.tokens);
}

void reset(SequenceStore& store, Injection& inject) {
    bool done = false;
    inject([&] { done = store.reset_prefix_cache(); });
    inject.result = done ? "done" : "refused";
}

}  // namespace

std::vector<StoreOperation> prefix_operations() {
    return {
        admitting("admit what may be known", {some_ids(7)}),
        admitting("admit what may be known to its end", {some_ids(8)}, {std::nullopt, 8}),
        admitting("admit what may be known, with much room", {some_ids(7)}, {14, std::nullopt}),
        admitting("admit under digests and a salt", covered(7)),
        admitting("admit under an unknown salt", {some_ids(7), kOther, {}}),
        admitting("admit under an unknown digest", {some_ids(7), kTenant, {{1, 3, kTenant}}}),
        admitting("admit with spans out of order", {some_ids(7), kTenant, {{3, 4, kImage}, {1, 3, kOther}}}),
        admitting("admit a prompt beyond the pool", covered(1000)),
        looking_up("look up", {some_ids(9)}),
        looking_up("look up under digests and a salt", covered(9)),
        looking_up("look up with spans out of order", {some_ids(7), kTenant, {{3, 4, kImage}, {1, 3, kOther}}}),
        looking_up("look up all of a prompt", {some_ids(6)}, 6, false),
        {"drain events", drain},
        {"reset the prefix cache", reset, false},
    };
}
