#include "harness.hpp"
#include "store_calls.hpp"
#include "store_operations.hpp"

using namespace calls;
using pagedkv::BlockAllocator;
using pagedkv::BlockState;

namespace {

Ids blocks_in(const BlockAllocator& blocks, BlockState state) {
    Ids ids;
    for (BlockId b = 0; b < blocks.total(); ++b)
        if (blocks.state(b) == state) ids.push_back(b);
    return ids;
}

StoreOperation allocating(const char* name, std::int64_t beyond, bool allocates) {
    const auto run = [=](SequenceStore& store, Injection& inject) {
        const std::int64_t count = store.allocator().available() + beyond;
        std::vector<BlockId> out(static_cast<std::size_t>(count));
        inject([&] {
            store.allocator().require(count);
            store.allocator().allocate(count, out);
        });
        inject.result = harness::shown(out);
    };
    return {name, run, allocates};
}

using Call = void (BlockAllocator::*)(std::span<const std::int64_t>);

// The call on all blocks of one state, and on one more that it must refuse.
StoreOperation on_blocks(const char* name, Call call, BlockState state, Ids more, bool allocates) {
    const auto run = [=](SequenceStore& store, Injection& inject) {
        Ids ids = blocks_in(store.allocator(), state);
        ids.insert(ids.end(), more.begin(), more.end());
        inject([&] { (store.allocator().*call)(ids); });
    };
    return {name, run, allocates};
}

void free_all_pins(SequenceStore& store, Injection& inject, std::int64_t more) {
    Ids ids;
    for (BlockId b = 0; b < store.allocator().total(); ++b)
        ids.insert(ids.end(), static_cast<std::size_t>(store.allocator().pins(b)), b);
    for (std::int64_t i = 0; i < more; ++i) ids.push_back(0);
    inject([&] { store.allocator().free(ids); });
}

}  // namespace

std::vector<StoreOperation> allocator_operations() {
    const Ids missing = {std::int64_t{1} << 40};
    return {
        allocating("allocate all", 0, false),
        allocating("allocate one too many", 1, true),
        on_blocks("pin blocks in use", &BlockAllocator::increment_ref, BlockState::in_use, {}, false),
        on_blocks("pin cached blocks", &BlockAllocator::increment_ref, BlockState::cached, {}, false),
        on_blocks("pin clean blocks", &BlockAllocator::increment_ref, BlockState::clean, {}, true),
        on_blocks("pin a block that does not exist", &BlockAllocator::increment_ref, BlockState::in_use, missing, true),
        {"free all pins", [](auto& store, auto& inject) { free_all_pins(store, inject, 0); }, false},
        {"free one pin too many", [](auto& store, auto& inject) { free_all_pins(store, inject, 1); }},
        on_blocks("free cached blocks", &BlockAllocator::free, BlockState::cached, {}, true),
        on_blocks("publish blocks in use", &BlockAllocator::publish, BlockState::in_use, {}, true),  // refused by an index
        on_blocks("publish pending blocks", &BlockAllocator::publish, BlockState::pending, {}, true),
        on_blocks("unpublish blocks in use", &BlockAllocator::unpublish, BlockState::in_use, {}, false),
        on_blocks("unpublish cached blocks", &BlockAllocator::unpublish, BlockState::cached, {}, false),
        on_blocks("unpublish pending blocks", &BlockAllocator::unpublish, BlockState::pending, {}, false),
        on_blocks("unpublish clean blocks", &BlockAllocator::unpublish, BlockState::clean, {}, true),
        {"address without a pool", [](auto& store, auto& inject) { inject([&] { store.allocator().address(0); }); }},
        {"bind a negative size", [](auto& store, auto& inject) { inject([&] { store.allocator().bind_pool(0, -1); }); }},
    };
}
