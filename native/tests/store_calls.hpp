// The store's calls with lists instead of spans, so that a test reads like the program that it stands for.
#pragma once

#include <initializer_list>
#include <optional>
#include <vector>

#include "pagedkv/errors.hpp"
#include "pagedkv/sequence_store.hpp"

namespace calls {

using Ids = std::vector<std::int64_t>;
using Int32s = std::vector<std::int32_t>;
using pagedkv::BlockId;
using pagedkv::Prompt;
using pagedkv::SeqId;
using pagedkv::SequenceStore;
using pagedkv::StepPlan;

inline pagedkv::StoreOptions options(std::int64_t num_blocks, std::int64_t block_size) {
    pagedkv::StoreOptions o;
    o.num_blocks = num_blocks;
    o.block_size = block_size;
    return o;
}

inline pagedkv::StoreOptions caching(std::int64_t num_blocks, std::int64_t block_size, bool constant_hash = false) {
    pagedkv::StoreOptions o = options(num_blocks, block_size);
    o.prefix_caching = true;
    o.constant_hash = constant_hash;
    return o;
}

inline pagedkv::Admission admit(SequenceStore& store, SeqId id, std::int64_t prompt,
                                std::optional<std::int64_t> reserve = std::nullopt) {
    pagedkv::Admission admission;
    store.admit(id, Prompt{prompt, {}, {}, {}}, {reserve, std::nullopt}, admission);
    return admission;
}

// A prompt whose ids are known: what prefix reuse works on.
struct Request {
    Int32s tokens;
    std::string salt = {};
    std::vector<pagedkv::Cover> covers = {};

    Prompt prompt() const { return {static_cast<std::int64_t>(tokens.size()), tokens, salt, covers}; }
};

inline pagedkv::Admission admit(SequenceStore& store, SeqId id, const Request& request, const SequenceStore::Admit& how = {}) {
    pagedkv::Admission admission;
    store.admit(id, request.prompt(), how, admission);
    return admission;
}

inline std::int64_t lookup(SequenceStore& store, const Request& request, std::optional<std::int64_t> most = std::nullopt) {
    return store.lookup(request.prompt(), most);
}

using TokenIds = std::optional<SequenceStore::TokenIds>;

// Valid as long as `ids` is.
inline TokenIds token_ids(const std::optional<Int32s>& ids) {
    if (!ids) return std::nullopt;
    return SequenceStore::TokenIds{static_cast<std::int64_t>(ids->size()), ids->data()};
}

inline StepPlan append(SequenceStore& store, const Ids& ids, const Ids& counts,
                       const std::optional<Int32s>& tokens = std::nullopt, SequenceStore::Fit fit = SequenceStore::Fit::whole) {
    StepPlan plan;
    store.append(ids, counts, token_ids(tokens), fit, plan);
    return plan;
}

inline StepPlan reserve(SequenceStore& store, const Ids& ids, const Ids& upto) {
    StepPlan plan;
    store.reserve(ids, upto, plan);
    return plan;
}

inline void commit(SequenceStore& store, const Ids& ids, const Ids& lengths,
                   const std::optional<Int32s>& tokens = std::nullopt) {
    store.commit(ids, lengths, token_ids(tokens));
}

inline void fork(SequenceStore& store, SeqId parent, const Ids& children) { store.fork(parent, children); }

inline StepPlan reorder(SequenceStore& store, const Ids& ids, const Ids& parents) {
    StepPlan plan;
    store.reorder(ids, parents, plan);
    return plan;
}

inline std::vector<BlockId> allocate(pagedkv::BlockAllocator& blocks, std::int64_t count) {
    blocks.require(count);
    std::vector<BlockId> out(static_cast<std::size_t>(count));
    blocks.allocate(count, out);
    return out;
}

inline std::vector<BlockId> entries(const SequenceStore& store, SeqId id) {
    const auto all = store.sequence(id).table.entries();
    return {all.begin(), all.end()};
}

template <class T>
std::vector<T> list(std::span<T> all) {
    return {all.begin(), all.end()};
}

}  // namespace calls
