#include "harness.hpp"
#include "store_calls.hpp"
#include "store_operations.hpp"

using namespace calls;

namespace {

std::int64_t capacity(const SequenceStore& store, SeqId id) { return store.math().start(store.sequence(id).table.size()); }

enum class To { length, half, capacity, beyond };

Ids lengths(const SequenceStore& store, const Ids& ids, To to) {
    Ids all;
    for (const SeqId id : ids) {
        const std::int64_t length = store.sequence(id).table.tokens();
        switch (to) {
            case To::length: all.push_back(length); break;
            case To::half: all.push_back(length / 2); break;
            case To::capacity: all.push_back(capacity(store, id)); break;
            case To::beyond: all.push_back(capacity(store, id) + 1); break;
        }
    }
    return all;
}

StoreOperation committing(const char* name, To to, std::optional<std::int64_t> tokens = std::nullopt) {
    const auto run = [=](SequenceStore& store, Injection& inject) {
        const Ids ids = store.seq_ids(), upto = lengths(store, ids, to);
        inject([&] { store.commit(ids, upto, tokens); });
    };
    return {name, run};
}

StoreOperation truncating(const char* name, To to, bool keep_blocks) {
    const auto run = [=](SequenceStore& store, Injection& inject) {
        const Ids ids = store.seq_ids(), upto = lengths(store, ids, to);
        inject([&] { store.truncate(ids, upto, keep_blocks); });
    };
    return {name, run};
}

StoreOperation freeing(const char* name, std::optional<std::int64_t> steps_back, Ids more_ids = {}) {
    const auto run = [=](SequenceStore& store, Injection& inject) {
        Ids ids = store.seq_ids();
        ids.insert(ids.end(), more_ids.begin(), more_ids.end());
        const auto after = steps_back ? std::optional(store.last_step() - *steps_back) : std::nullopt;
        inject([&] { store.free(ids, after); });
    };
    return {name, run};
}

StoreOperation retiring(const char* name, std::int64_t beyond, bool allocates) {
    const auto run = [=](SequenceStore& store, Injection& inject) {
        const pagedkv::Step step = store.last_step() + beyond;
        inject([&] { store.retire(step); });
    };
    return {name, run, allocates};
}

}  // namespace

std::vector<StoreOperation> cursor_operations() {
    return {
        committing("commit", To::length),
        committing("commit up to the capacity", To::capacity),
        committing("commit beyond the capacity", To::beyond),
        committing("commit with too many ids", To::length, 1000),
        truncating("truncate nothing", To::length, false),
        truncating("truncate to the half", To::half, false),
        truncating("truncate to the half, keeping blocks", To::half, true),
        truncating("truncate beyond the length", To::beyond, false),
        freeing("free", std::nullopt),
        freeing("free after the last step", 0),
        freeing("free after a step to come", -1),
        freeing("free an unknown sequence", std::nullopt, {-77}),
        retiring("retire", 0, false),
        retiring("retire a step to come", 1, true),
    };
}
