// Requests as an engine serves them, for tests of prefix reuse through the store.
#pragma once

#include "harness.hpp"
#include "store_calls.hpp"

namespace calls {

// A prompt that is computed and committed whole, then maybe given back.
inline void serve(SequenceStore& store, SeqId id, const Request& request, bool free = true) {
    const auto count = static_cast<std::int64_t>(request.tokens.size());
    const std::int64_t cached = admit(store, id, request).cached_tokens;
    append(store, {id}, {count - cached});
    commit(store, {id}, {count});
    if (free) store.free(Ids{id}, std::nullopt);
    store.check();
}

inline Int32s counted(std::int32_t count, std::int32_t first = 1) {
    Int32s all;
    for (std::int32_t i = 0; i < count; ++i) all.push_back(first + i);
    return all;
}

}  // namespace calls
