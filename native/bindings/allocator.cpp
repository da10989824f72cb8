#include "bindings.hpp"

#include <nanobind/stl/shared_ptr.h>

namespace pagedkv::bindings {

namespace {

using Handle = AllocatorHandle;

// Every call: arguments are converted already; leave the interpreter lock, take ours, work.
template <class Work>
auto locked(const Handle& self, Work&& work) {
    const nb::gil_scoped_release released;
    const std::lock_guard<std::mutex> guard(*self.mutex);
    return work(*self.blocks);
}

// One id (a Python or NumPy integer) or many.
Int64s to_ids(nb::handle ids) {
    if (!is_integer(ids)) return to_int64s(ids, "ids", Beyond::refuse);
    Int64s one(1);
    one.data()[0] = to_int(ids, "ids");
    return one;
}

std::int64_t to_id(nb::handle id) { return to_int(id, "block id"); }

struct Standalone {
    Standalone(std::int64_t n, std::int64_t bytes, std::uint64_t base) : blocks(n, bytes, base) {}
    std::mutex mutex;
    BlockAllocator blocks;
};

void create(Handle* self, nb::handle num_blocks, nb::handle block_size_bytes, nb::handle pool_base) {
    auto owned = std::make_shared<Standalone>(to_int(num_blocks, "num_blocks"), to_int(block_size_bytes, "block_size_bytes"),
                                              to_address(pool_base, "pool_base"));
    new (self) Handle{owned, &owned->blocks, &owned->mutex};
}

nb::object allocate(const Handle& self, nb::handle count) {
    const std::int64_t n = to_int(count, "count");
    locked(self, [&](BlockAllocator& a) { a.require(n); });
    auto ids = std::make_unique_for_overwrite<BlockId[]>(static_cast<std::size_t>(n));
    BlockId* data = ids.get();
    nb::object array = own(std::move(ids), n);  // before the blocks are taken: nothing can fail after that
    locked(self, [&](BlockAllocator& a) { a.allocate(n, {data, static_cast<std::size_t>(n)}); });
    return array;
}

struct PhysicalBlock {
    std::int64_t block_id, ref_count;
    std::optional<std::uint64_t> device_ptr;
    BlockState state;
    std::int64_t fill;
};

PhysicalBlock block(const Handle& self, nb::handle id) {
    const std::int64_t wanted = to_id(id);
    return locked(self, [&](BlockAllocator& a) {
        const BlockId b = a.checked(wanted);
        PhysicalBlock result{b, a.refs(b), std::nullopt, a.state(b), a.fill(b)};
        if (a.block_size_bytes() > 0) result.device_ptr = a.address(b);
        return result;
    });
}

nb::object device_ptr(const PhysicalBlock& b) {
    return b.device_ptr ? nb::object(nb::int_(*b.device_ptr)) : nb::object(nb::none());
}

template <auto Member>
std::int64_t number(const Handle& self) {
    return locked(self, [](BlockAllocator& a) { return static_cast<std::int64_t>((a.*Member)()); });
}

template <auto Member>
void each(const Handle& self, nb::handle ids) {
    const Int64s wanted = to_ids(ids);
    locked(self, [&](BlockAllocator& a) { (a.*Member)(wanted.span()); });
}

void bind_block(nb::module_& m) {
    nb::enum_<BlockState>(m, "BlockState", "The four states of a block; each is in exactly one.")
        .value("CLEAN", BlockState::clean, "free, and nothing can find it")
        .value("CACHED", BlockState::cached, "free, but findable by its content until it is evicted")
        .value("IN_USE", BlockState::in_use, "referenced at least once")
        .value("PENDING", BlockState::pending, "given back while work in flight may still touch it");
    nb::class_<PhysicalBlock>(m, "PhysicalBlock", "A frozen snapshot of one block.")
        .def_ro("block_id", &PhysicalBlock::block_id)
        .def_ro("ref_count", &PhysicalBlock::ref_count, "References: page-table entries and pins.")
        .def_prop_ro("device_ptr", &device_ptr, nb::sig("def device_ptr(self) -> int | None"),
                     "Address of its first byte, or None while no pool is bound.")
        .def_ro("state", &PhysicalBlock::state)
        .def_ro("fill", &PhysicalBlock::fill, "High-water mark of tokens written.")
        .def("__repr__", [](const PhysicalBlock& b) {
            return nb::str("PhysicalBlock(block_id={}, ref_count={}, device_ptr={}, state={}, fill={})")
                .format(b.block_id, b.ref_count, device_ptr(b), nb::cast(b.state), b.fill);
        });
}

}  // namespace

void bind_allocator(nb::module_& m) {
    using namespace nb::literals;
    bind_block(m);
    nb::class_<Handle>(m, "BlockAllocator",
                       "Who may have which block: reference counts, free lists, the four states. O(1) a block; thread-safe.\n\n"
                       "References taken here (pins) are separate from those of sequences and dropped only here.")
        .def("__init__", &create, "num_blocks"_a.none(), "block_size_bytes"_a.none() = 0, "pool_base"_a.none() = 0,
             nb::sig("def __init__(self, num_blocks: int, block_size_bytes: int = 0, pool_base: int = 0) -> None"))
        .def("allocate", &allocate, "count"_a.none() = 1,
             nb::sig("def allocate(self, count: int = 1) -> numpy.typing.NDArray[numpy.int32]"),
             "Take `count` blocks with one reference each; int32 ids [count], owned by the caller.\n\n"
             "Clean blocks first (last freed first, block 0 first on a new pool), then the cached block released longest\n"
             "ago. Modifies: the blocks taken. Errors: InvalidArgumentError (negative), NeverFitsError (more than the pool),\n"
             "OutOfBlocksError (not now); nothing is taken then.")
        .def("free", &each<&BlockAllocator::free>, "ids"_a.none(),
             nb::sig("def free(self, ids: int | numpy.typing.ArrayLike) -> None"),
             "Drop one reference for each time a block is named; at zero it is clean, or cached if published.\n\n"
             "Atomic. Errors: SequenceStateError if more references are dropped than were taken here (double free).")
        .def("increment_ref", &each<&BlockAllocator::increment_ref>, "ids"_a.none(),
             nb::sig("def increment_ref(self, ids: int | numpy.typing.ArrayLike) -> None"),
             "Add a reference (a pin) for each time a block is named. Atomic.\n\n"
             "A cached block comes back into use with its content. A write by a sequence into a pinned block copies it first.\n"
             "Errors: SequenceStateError for a block that is free and not findable.")
        .def("publish", &each<&BlockAllocator::publish>, "ids"_a.none(),
             nb::sig("def publish(self, ids: int | numpy.typing.ArrayLike) -> None"),
             "Mark blocks in use as findable by content: when their last reference goes they are cached, not clean.")
        .def("unpublish", &each<&BlockAllocator::unpublish>, "ids"_a.none(),
             nb::sig("def unpublish(self, ids: int | numpy.typing.ArrayLike) -> None"),
             "Take the mark back; cached blocks become clean.")
        .def(
            "get_ref_count",
            [](const Handle& h, nb::handle id) {
                const std::int64_t wanted = to_id(id);
                return locked(h, [&](BlockAllocator& a) { return a.refs(a.checked(wanted)); });
            },
            "block_id"_a.none(), nb::sig("def get_ref_count(self, block_id: int) -> int"),
            "References of a block, pins included.")
        .def(
            "get_block_ptr",
            [](const Handle& h, nb::handle id) {
                const std::int64_t wanted = to_id(id);
                return locked(h, [&](BlockAllocator& a) { return a.address(a.checked(wanted)); });
            },
            "block_id"_a.none(), nb::sig("def get_block_ptr(self, block_id: int) -> int"),
            "Address of a block's first byte (64 bits): pool_base + block_id * block_size_bytes.")
        .def("block", &block, "block_id"_a.none(), nb::sig("def block(self, block_id: int) -> PhysicalBlock"),
             "A snapshot of one block.")
        .def(
            "state",
            [](const Handle& h, nb::handle id) {
                const std::int64_t wanted = to_id(id);
                return locked(h, [&](BlockAllocator& a) { return a.state(a.checked(wanted)); });
            },
            "block_id"_a.none(), nb::sig("def state(self, block_id: int) -> BlockState"), "The state of one block.")
        .def(
            "bind_pool",
            [](const Handle& h, nb::handle pool_base, nb::handle bytes) {
                const std::uint64_t base = to_address(pool_base, "pool_base");
                const std::int64_t size = to_int(bytes, "block_size_bytes");
                locked(h, [&](BlockAllocator& a) { a.bind_pool(base, size); });
            },
            "pool_base"_a.none(), "block_size_bytes"_a.none(),
            nb::sig("def bind_pool(self, pool_base: int, block_size_bytes: int) -> None"),
            "Say where block 0 lies and how far blocks are apart, in bytes.")
        .def_prop_ro("num_free_blocks", &number<&BlockAllocator::available>, "Clean and cached blocks.")
        .def_prop_ro(
            "num_allocated_blocks",
            [](const Handle& h) { return locked(h, [](BlockAllocator& a) { return std::int64_t{a.in_use()} + a.pending(); }); },
            "Blocks in use and pending.")
        .def_prop_ro("num_pending_blocks", &number<&BlockAllocator::pending>)
        .def_prop_ro("num_cached_blocks", &number<&BlockAllocator::cached>)
        .def_prop_ro("num_total_blocks", &number<&BlockAllocator::total>)
        .def_prop_ro("block_size_bytes", &number<&BlockAllocator::block_size_bytes>, "0 while no pool is bound.")
        .def_prop_ro("pool_base", [](const Handle& h) { return locked(h, [](BlockAllocator& a) { return a.pool_base(); }); })
        .def_prop_ro("evictions", &number<&BlockAllocator::evictions>, "Cached blocks that were taken for new content.");
}

}  // namespace pagedkv::bindings
