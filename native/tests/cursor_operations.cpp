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

enum class With { nothing, late_ids, too_many_ids };

StoreOperation committing(const char* name, To to, With with = With::nothing) {
    const auto run = [=](SequenceStore& store, Injection& inject) {
        const Ids ids = store.seq_ids(), upto = lengths(store, ids, to);
        std::int64_t late = with == With::too_many_ids ? 1000 : 0;
        for (std::size_t i = 0; i < ids.size(); ++i) late += std::max<std::int64_t>(0, upto[i] - store.sequence(ids[i]).known);
        const auto tokens = with == With::nothing ? std::nullopt : std::optional(some_ids(late));
        inject([&] { store.commit(ids, upto, token_ids(tokens)); });
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
        committing("commit with late ids", To::length, With::late_ids),
        committing("commit with late ids up to the capacity", To::capacity, With::late_ids),
        committing("commit with too many ids", To::length, With::too_many_ids),
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
