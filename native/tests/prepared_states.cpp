#include "prepared_states.hpp"

#include "store_calls.hpp"

using namespace calls;

namespace {

using Store = std::unique_ptr<SequenceStore>;

// Every call here names one sequence, so that the store's scratch memory for a batch is as small as it can be, and the
// batches of the test must make it grow.
Store empty() { return std::make_unique<SequenceStore>(options(12, 2)); }

Store few() {
    Store store = empty();
    for (const SeqId id : {5, 6, 7}) {
        admit(*store, id, 3);
        append(*store, {id}, {3});
        store->commit(Ids{id}, Ids{2}, std::nullopt);
    }
    return store;
}

// Pins on blocks that sequences will write, published, cached and pending blocks, lookahead, a hole in the rows,
// prompts appended half-way.
Store mixed() {
    auto o = options(24, 2);
    o.watermark = 1;
    o.scratch_blocks = 1;
    Store store = std::make_unique<SequenceStore>(o);
    for (const SeqId id : {1, 2, 3, 4, 5, 6}) {
        admit(*store, id, 5, id % 2 == 0 ? 5 : 0);
        append(*store, {id}, {id % 3 == 0 ? 5 : 3});
    }
    auto& blocks = store->allocator();
    blocks.publish(entries(*store, 1).size() > 1 ? Ids{entries(*store, 1)[0], entries(*store, 1)[1]} : Ids{});
    blocks.publish(Ids{entries(*store, 2)[0], entries(*store, 2)[1]});
    store->free(Ids{2}, std::nullopt);  // cached
    blocks.publish(Ids{entries(*store, 4)[0]});
    store->free(Ids{4}, 4);  // pending, one of them findable
    store->free(Ids{6}, 6);
    for (const SeqId id : {3, 5}) {
        reserve(*store, {id}, {7});
        for (const BlockId b : entries(*store, id)) blocks.increment_ref(Ids{b});
    }
    store->retire(1);
    return store;
}

// 64 rows, 64 map entries and 64 sequences: the next admission makes all three grow.
Store crowded() {
    Store store = std::make_unique<SequenceStore>(options(200, 4));
    for (SeqId id = 0; id < 64; ++id) {
        admit(*store, id * 1000, 3);
        append(*store, {id * 1000}, {3});
    }
    return store;
}

Store nearly_full() {
    Store store = std::make_unique<SequenceStore>(options(7, 2));
    for (const SeqId id : {1, 2, 3}) {
        admit(*store, id, 4);
        append(*store, {id}, {4});
    }
    return store;
}

// A group of forks with copied tails, one that nobody has written to yet, one of a single member, a stranger; lookahead
// over shared blocks; as many sequences as there are rows, map entries and places for now.
Store forked() {
    Store store = std::make_unique<SequenceStore>(options(40, 2));
    for (const SeqId id : {1, 2, 3, 5}) {
        admit(*store, id, 5, id == 3 ? 9 : 5);
        append(*store, {id}, {id == 5 ? 2 : 5});
    }
    fork(*store, 1, {11});
    fork(*store, 1, {12});
    append(*store, {12}, {1});
    append(*store, {1}, {4});
    fork(*store, 2, {21});
    fork(*store, 21, {22});
    fork(*store, 3, {31});
    store->free(Ids{3}, store->last_step());
    store->commit(Ids{11}, Ids{3}, std::nullopt);
    return store;
}

// Beams after some steps of a search, one cut short, one left behind without blocks; pins, findable and pending blocks.
Store beams() {
    auto o = options(26, 2);
    o.max_tokens = 16;
    Store store = std::make_unique<SequenceStore>(o);
    admit(*store, 5, 6);
    append(*store, {5}, {6});
    fork(*store, 5, {6, 7, 8});
    admit(*store, 9, 0);
    fork(*store, 9, {10});
    for (const Ids& parents : {Ids{1, 1, 0}, Ids{0, 2, 2}}) {
        append(*store, {5, 6, 7}, {1, 1, 1});
        reorder(*store, {5, 6, 7}, parents);
    }
    store->allocator().publish(Ids{entries(*store, 7)[0], entries(*store, 7)[3]});
    store->allocator().increment_ref(Ids{entries(*store, 5).back(), entries(*store, 8).back()});
    store->truncate(Ids{8}, Ids{3}, true);
    fork(*store, 6, {60});
    store->free(Ids{60}, store->last_step());
    return store;
}

// Shared tails and room for one copy.
Store short_of_copies() {
    Store store = std::make_unique<SequenceStore>(options(4, 4));
    admit(*store, 1, 10);
    append(*store, {1}, {10});
    for (const SeqId id : {2, 3}) fork(*store, 1, {id});
    return store;
}

}  // namespace

const std::vector<PreparedState>& prepared_states() {
    static const std::vector<PreparedState> all = [] {
        std::vector<PreparedState> states = {{"empty", empty},
                                             {"few", few},
                                             {"mixed", mixed},
                                             {"crowded", crowded},
                                             {"nearly_full", nearly_full},
                                             {"forked", forked},
                                             {"beams", beams},
                                             {"short_of_copies", short_of_copies}};
        for (const PreparedState& state : reuse_states()) states.push_back(state);
        return states;
    }();
    return all;
}
