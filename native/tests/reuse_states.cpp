// Prepared states with contents in the cache.
#include "prepared_states.hpp"
#include "store_calls.hpp"
#include "store_operations.hpp"

using namespace calls;

namespace {

using Store = std::unique_ptr<SequenceStore>;

void compute(SequenceStore& store, SeqId id) {
    const std::int64_t length = store.sequence(id).table.tokens(), known = store.sequence(id).known;
    append(store, {id}, {known - length});
    commit(store, {id}, {known});
}

Request covered(std::int64_t tokens) {
    return {some_ids(tokens), std::string(50, 't'), {{1, 3, std::string(60, 'i')}, {3, 4, std::string(70, 'o')}}};
}

// Copies, a fork that has gone its own way, one cut in a published block, one whose tokens nobody knows; contents in use,
// pending and cached, with and without salts and digests.
Store reused() {
    Store store = std::make_unique<SequenceStore>(caching(40, 2));
    for (const SeqId id : {1, 2}) admit(*store, id, Request{some_ids(6)});
    for (const SeqId id : {1, 2}) compute(*store, id);
    admit(*store, 5, Request{some_ids(9)});
    compute(*store, 5);
    fork(*store, 5, {6});
    append(*store, {6}, {2}, Int32s{70, 71});
    for (const SeqId id : {3, 4, 7}) {
        admit(*store, id, covered(id + 3));
        compute(*store, id);
    }
    store->free(Ids{3}, std::nullopt);
    store->free(Ids{4}, store->last_step());
    store->truncate(Ids{2}, Ids{3}, true);
    admit(*store, 8, Request{{}}, {0, {}});
    append(*store, {8}, {3});
    admit(*store, 9, Request{some_ids(6)}, {std::nullopt, 6});  // all from the cache: it has no ids of its own
    store->allocator().increment_ref(Ids{entries(*store, 5)[0]});
    return store;
}

// Nothing is clean: whatever takes a block evicts one, and with it what is below.
Store full_of_contents() {
    Store store = std::make_unique<SequenceStore>(caching(14, 2));
    admit(*store, 1, Request{some_ids(8)});
    admit(*store, 2, covered(6));
    for (const SeqId id : {1, 2}) compute(*store, id);
    store->free(Ids{2, 1}, std::nullopt);
    admit(*store, 5, Request{{9, 9, 9}});
    compute(*store, 5);
    allocate(store->allocator(), store->allocator().clean());
    return store;
}

Store forgettable() {
    Store store = std::make_unique<SequenceStore>(caching(12, 2, true));
    for (const SeqId id : {1, 2}) admit(*store, id, id == 1 ? Request{some_ids(8)} : covered(8));
    for (const SeqId id : {1, 2}) compute(*store, id);
    store->free(Ids{1, 2}, std::nullopt);
    return store;
}

}  // namespace

std::vector<PreparedState> reuse_states() {
    return {{"reused", reused}, {"full_of_contents", full_of_contents}, {"forgettable", forgettable}};
}
