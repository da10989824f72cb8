#include "bindings.hpp"

#include <nanobind/stl/shared_ptr.h>

#include "manager_calls.hpp"
#include "results.hpp"

namespace pagedkv::bindings {

namespace {

using Fit = SequenceStore::Fit;

void create(Manager* self, nb::handle num_blocks, nb::handle block_size, nb::handle max_tokens, bool prefix_caching,
            nb::handle watermark, nb::handle scratch_blocks, bool constant_hash) {
    new (self) Manager(StoreOptions{to_int(num_blocks, "num_blocks"), to_int(block_size, "block_size"),
                                    to_optional_int(max_tokens, "max_tokens"), to_int(watermark, "watermark"),
                                    to_int(scratch_blocks, "scratch_blocks"), prefix_caching, constant_hash});
}

nb::object append(Manager& self, nb::handle seq_ids, nb::handle counts, nb::handle tokens, bool partial) {
    const Int64s ids = to_int64s(seq_ids, "seq_ids", Beyond::refuse);
    const Int64s added = to_int64s(counts, "counts", Beyond::saturate);
    const OptionalTokens given(self, tokens);
    return result_of<StepPlan>(self, [&](SequenceStore& s, StepPlan& plan) {
        s.append(ids.span(), added.span(), given.ids(), partial ? Fit::partial : Fit::whole, plan);
    });
}

nb::object reserve(Manager& self, nb::handle seq_ids, nb::handle upto) {
    const Int64s ids = to_int64s(seq_ids, "seq_ids", Beyond::refuse);
    const Int64s targets = to_int64s(upto, "upto", Beyond::saturate);
    return result_of<StepPlan>(self, [&](SequenceStore& s, StepPlan& plan) { s.reserve(ids.span(), targets.span(), plan); });
}

void commit(Manager& self, nb::handle seq_ids, nb::handle lengths, nb::handle tokens) {
    const Int64s ids = to_int64s(seq_ids, "seq_ids", Beyond::refuse);
    const Int64s upto = to_int64s(lengths, "lengths", Beyond::saturate);
    const OptionalTokens given(self, tokens);
    locked(self, [&](SequenceStore& s) { s.commit(ids.span(), upto.span(), given.ids()); });
}

void truncate(Manager& self, nb::handle seq_ids, nb::handle lengths, bool keep_blocks) {
    const Int64s ids = to_int64s(seq_ids, "seq_ids", Beyond::refuse);
    const Int64s upto = to_int64s(lengths, "lengths", Beyond::saturate);
    locked(self, [&](SequenceStore& s) { s.truncate(ids.span(), upto.span(), keep_blocks); });
}

void free(Manager& self, nb::handle seq_ids, nb::handle after) {
    const Int64s ids = to_int64s(seq_ids, "seq_ids", Beyond::refuse);
    const std::optional<std::int64_t> step = to_optional_int(after, "after");
    locked(self, [&](SequenceStore& s) { s.free(ids.span(), step); });
}

template <class Read>
std::int64_t of_sequence(Manager& self, nb::handle seq_id, Read&& read) {
    const std::int64_t id = to_seq_id(seq_id);
    return locked(self, [&](SequenceStore& s) { return static_cast<std::int64_t>(read(s, s.sequence(id))); });
}

nb::object get_page_table(Manager& self, nb::handle seq_id) {
    const std::int64_t id = to_seq_id(seq_id);
    const PageTable copy = locked(self, [&](SequenceStore& s) { return s.sequence(id).table; });
    return page_table_of(copy, locked(self, [](SequenceStore& s) { return s.math().size(); }));
}

nb::object seq_ids(Manager& self) {
    const std::vector<SeqId> ids = locked(self, [](SequenceStore& s) { return s.seq_ids(); });
    auto copy = std::make_unique_for_overwrite<std::int64_t[]>(ids.size());
    std::copy(ids.begin(), ids.end(), copy.get());
    return own(std::move(copy), static_cast<std::int64_t>(ids.size()));
}

std::int64_t table_width(Manager& self, nb::handle multiple_of) {
    const std::int64_t multiple = to_int(multiple_of, "multiple_of");
    if (multiple < 1 || multiple > kMaxTokens) throw InvalidArgument(join("multiple_of is ", multiple, "; give 1 or more"));
    return locked(self, [&](SequenceStore& s) {
        const StoreOptions& o = s.options();
        const std::int64_t most = o.max_tokens ? s.math().blocks(*o.max_tokens) : o.num_blocks;
        return (most + multiple - 1) / multiple * multiple;
    });
}

nb::object allocator(nb::handle_t<Manager> self) {
    Manager& manager = initialized(self);
    // The view keeps the manager alive and shares its lock.
    auto owner = std::shared_ptr<void>(self.inc_ref().ptr(), [](void* p) {
        const nb::gil_scoped_acquire held;
        Py_DECREF(static_cast<PyObject*>(p));
    });
    return nb::cast(AllocatorHandle{std::move(owner), &manager.allocator(), &manager.mutex()}, nb::rv_policy::move);
}

template <class Number>
auto option(Number&& number) {
    return [number](Manager& self) { return locked(self, [&](SequenceStore& s) { return std::int64_t{number(s)}; }); };
}

void bind_batches(nb::class_<Manager>& c) {
    using namespace nb::literals;
#define APPEND_SIG(name, result)                                                          \
    nb::sig("def " name                                                                   \
            "(self, seq_ids: numpy.typing.ArrayLike, counts: numpy.typing.ArrayLike, *, " \
            "tokens: numpy.typing.ArrayLike | None = None, partial: bool = False) -> " result)
    c.def("append", &append, "seq_ids"_a.none(), "counts"_a.none(), nb::kw_only(), "tokens"_a = nb::none(), "partial"_a = false,
          APPEND_SIG("append", "StepPlan"),
          "Lengthen sequences by counts: take blocks, copy shared ones that are written, give every token its slot.\n\n"
          "seq_ids: int64 [n], each once; counts: int32 [n] >= 0; tokens: int32 [sum of counts], the ids if known.\n"
          "Atomic for the whole batch; with partial=True the longest leading run that fits is served (plan.served).\n"
          "Modifies: lengths, page tables, blocks. Stream: apply the plan on the compute stream before the model's kernels.\n"
          "Errors: SequenceStateError (unknown id), OutOfBlocksError, NeverFitsError (a sequence larger than the pool),\n"
          "InvalidArgumentError (repeated id, bad count, beyond max_tokens).");
    c.def(
        "try_append",
        [](Manager& m, nb::handle i, nb::handle n, nb::handle t, bool p) {
            return or_none([&] { return append(m, i, n, t, p); });
        },
        "seq_ids"_a.none(), "counts"_a.none(), nb::kw_only(), "tokens"_a = nb::none(), "partial"_a = false,
        APPEND_SIG("try_append", "StepPlan | None"), "append, but None where that raises OutOfBlocksError.");
    c.def("reserve", &reserve, "seq_ids"_a.none(), "upto"_a.none(),
          nb::sig("def reserve(self, seq_ids: numpy.typing.ArrayLike, upto: numpy.typing.ArrayLike) -> StepPlan"),
          "Make room for tokens up to the absolute lengths `upto` (int32 [n]); lengths stay. Atomic.\n\n"
          "A shared block under the positions from length to upto is copied first, so they may be written and then committed.\n"
          "Modifies: capacity. Stream and errors: as append.");
    c.def(
        "try_reserve", [](Manager& m, nb::handle i, nb::handle u) { return or_none([&] { return reserve(m, i, u); }); },
        "seq_ids"_a.none(), "upto"_a.none(),
        nb::sig("def try_reserve(self, seq_ids: numpy.typing.ArrayLike, upto: numpy.typing.ArrayLike) -> StepPlan | None"),
        "reserve, but None where that raises OutOfBlocksError.");
    c.def("commit", &commit, "seq_ids"_a.none(), "lengths"_a.none(), nb::kw_only(), "tokens"_a = nb::none(),
          nb::sig("def commit(self, seq_ids: numpy.typing.ArrayLike, lengths: numpy.typing.ArrayLike, *, "
                  "tokens: numpy.typing.ArrayLike | None = None) -> None"),
          "Say that the writes of the first `lengths` tokens (int32 [n], absolute) are enqueued on the compute stream.\n\n"
          "Raises length if it is shorter, up to capacity; never lowers a cursor. tokens: int32, the ids that were not known\n"
          "yet, from each sequence's first unknown position to its length. Atomic. Errors: InvalidArgumentError (beyond\n"
          "capacity, wrong number of ids), SequenceStateError (unknown id; a shared block under a raised length).");
    c.def("truncate", &truncate, "seq_ids"_a.none(), "lengths"_a.none(), nb::kw_only(), "keep_blocks"_a = false,
          nb::sig("def truncate(self, seq_ids: numpy.typing.ArrayLike, lengths: numpy.typing.ArrayLike, *, keep_blocks: bool = "
                  "False) -> None"),
          "Shorten sequences to `lengths` (int32 [n]); blocks no longer needed go back unless keep_blocks. Atomic.\n\n"
          "Blocks given back may be reused by work enqueued later on the compute stream.\n"
          "Errors: InvalidArgumentError (longer than it is, negative), SequenceStateError (unknown id).");
    c.def("free", &free, "seq_ids"_a.none(), nb::kw_only(), "after"_a = nb::none(),
          nb::sig("def free(self, seq_ids: numpy.typing.ArrayLike, *, after: int | None = None) -> None"),
          "End sequences. Their ids and rows may be used again at once; atomic.\n\n"
          "after=None: blocks may be reused by work enqueued later on the compute stream. after=step: blocks stay pending\n"
          "until retire(step). Errors: SequenceStateError (unknown id, freed twice), InvalidArgumentError (step not planned).");
#undef APPEND_SIG
}

void bind_queries(nb::class_<Manager>& c) {
    using namespace nb::literals;
    c.def(
        "retire",
        [](Manager& m, nb::handle step) {
            const std::int64_t finished = to_int(step, "step");
            locked(m, [&](SequenceStore& s) { s.retire(finished); });
        },
        "step"_a.none(), nb::sig("def retire(self, step: int) -> None"),
        "Say that this step and all before it have finished: blocks that waited for them become free.");
    c.def("get_page_table", &get_page_table, "seq_id"_a.none(), nb::sig("def get_page_table(self, seq_id: int) -> PageTable"),
          "A snapshot of a sequence's page table.");
    c.def(
        "get_stats", [](Manager& m) { return locked(m, [](SequenceStore& s) { return s.stats(); }); },
        "A snapshot of all counters, O(1) at any size.");
    c.def(
        "check", [](Manager& m) { locked(m, [](SequenceStore& s) { s.check(); }); },
        "Recount every invariant from scratch, O(pool). Errors: PagedKVError naming the first that is broken.");
    c.def(
        "seq_length",
        [](Manager& m, nb::handle id) { return of_sequence(m, id, [](auto&, const Sequence& s) { return s.table.tokens(); }); },
        "seq_id"_a.none(), nb::sig("def seq_length(self, seq_id: int) -> int"), "Tokens stored.");
    c.def(
        "committed_length",
        [](Manager& m, nb::handle id) { return of_sequence(m, id, [](auto&, const Sequence& s) { return s.committed; }); },
        "seq_id"_a.none(), nb::sig("def committed_length(self, seq_id: int) -> int"), "Tokens whose writes are enqueued.");
    c.def(
        "capacity_tokens",
        [](Manager& m, nb::handle id) {
            return of_sequence(m, id,
                               [](SequenceStore& store, const Sequence& s) { return store.math().start(s.table.size()); });
        },
        "seq_id"_a.none(), nb::sig("def capacity_tokens(self, seq_id: int) -> int"), "Tokens that fit the blocks it has.");
    c.def(
        "row",
        [](Manager& m, nb::handle id) {
            return of_sequence(m, id, [](SequenceStore& store, const Sequence& s) { return store.row_of(s.id); });
        },
        "seq_id"_a.none(), nb::sig("def row(self, seq_id: int) -> int"), "Its line in the device-resident block tables.");
    c.def("seq_ids", &seq_ids, nb::sig("def seq_ids(self) -> numpy.typing.NDArray[numpy.int64]"),
          "Ids of all live sequences in row order; a fresh array. O(rows).");
    c.def(
        "__contains__",
        [](Manager& m, nb::handle id) {
            const std::int64_t wanted = to_seq_id(id);
            return locked(m, [&](SequenceStore& s) { return s.row_of(wanted) >= 0; });
        },
        "seq_id"_a.none(), nb::sig("def __contains__(self, seq_id: int) -> bool"));
    c.def("table_width", &table_width, "multiple_of"_a.none() = 1,
          nb::sig("def table_width(self, multiple_of: int = 1) -> int"),
          "Columns that a block table needs for max_tokens (without it: for the whole pool), rounded up.");
    c.def_prop_ro("allocator", &allocator, nb::sig("def allocator(self) -> BlockAllocator"),
                  "The live allocator below; references taken through it are pins, apart from those of sequences.");
    c.def_prop_ro("num_blocks", option([](SequenceStore& s) { return s.options().num_blocks; }));
    c.def_prop_ro("block_size", option([](SequenceStore& s) { return std::int64_t{s.math().size()}; }), "Tokens a block.");
    c.def_prop_ro("watermark", option([](SequenceStore& s) { return s.options().watermark; }),
                  "Blocks that admission leaves free.");
    c.def_prop_ro("scratch_blocks", option([](SequenceStore& s) { return s.options().scratch_blocks; }),
                  "Blocks set apart for padding, ids num_blocks and up.");
    c.def_prop_ro(
        "max_tokens",
        [](Manager& m) -> nb::object {
            const auto most = locked(m, [](SequenceStore& s) { return s.options().max_tokens; });
            return most ? nb::object(nb::int_(*most)) : nb::object(nb::none());
        },
        nb::sig("def max_tokens(self) -> int | None"), "The most tokens a sequence may hold.");
    c.def_prop_ro("last_step", option([](SequenceStore& s) { return s.last_step(); }),
                  "Step of the newest plan; 0 before the first.");
    c.def_prop_ro("retired_step", option([](SequenceStore& s) { return s.retired_step(); }));
}

}  // namespace

void bind_manager(nb::module_& m) {
    using namespace nb::literals;
    nb::class_<Manager> c(
        m, "KVCacheManager",
        "Bookkeeping of a paged KV cache: no device, no framework. Thread-safe; one native call a batch.\n\n"
        "num_blocks, block_size: the pool. max_tokens: the most a sequence may hold. watermark: blocks that admission\n"
        "leaves free. scratch_blocks: extra blocks for padding, not counted in num_blocks. prefix_caching: full committed\n"
        "blocks whose token ids are known are found again by what they hold. _constant_hash: for tests of that alone.");
    c.def("__init__", &create, "num_blocks"_a.none(), "block_size"_a.none(), nb::kw_only(), "max_tokens"_a = nb::none(),
          "prefix_caching"_a = false, "watermark"_a.none() = 0, "scratch_blocks"_a.none() = 0, "_constant_hash"_a = false,
          nb::sig("def __init__(self, num_blocks: int, block_size: int, *, max_tokens: int | None = None, "
                  "prefix_caching: bool = False, watermark: int = 0, scratch_blocks: int = 0, _constant_hash: bool = False) -> "
                  "None"));
    bind_admission(c);
    bind_batches(c);
    bind_sharing(c);
    bind_queries(c);
    bind_exports(c);
    bind_prefix_reuse(c);
}

}  // namespace pagedkv::bindings
