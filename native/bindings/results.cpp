// PageTable, CacheStats, Admission, CsrTables: what the manager hands out besides plans.
#include "bindings.hpp"

#include <algorithm>

#include "results.hpp"

namespace pagedkv::bindings {

namespace {

// A page table that stands alone: the core's table plus the block size and checks.
struct Table {
    PageTable table;
    std::int32_t block_size;
};

std::int32_t checked_block_size(nb::handle value) {
    const std::int64_t size = to_int(value, "block_size");
    if (size < 1 || size > kMaxBlockSize)
        throw InvalidArgument(join("block_size is ", size, "; a block holds 1 to ", kMaxBlockSize, " tokens"));
    return static_cast<std::int32_t>(size);
}

std::int64_t filled_in_last(const Table& t) {
    // Below the last block nothing counts as filled in it: it may be reserved only.
    return std::max<std::int64_t>(0, t.table.tokens() - std::max<std::int64_t>(0, t.table.size() - 1) * t.block_size);
}

void append_block(Table& t, nb::handle id) {
    const std::int64_t block = to_int(id, "block id");
    if (block < 0 || block > kMaxBlocks)
        throw InvalidArgument(join("block id is ", block, "; it cannot be negative or beyond 2^31"));
    if (t.table.size() > 0 && filled_in_last(t) != t.block_size)
        throw SequenceState(join("the last block holds ", filled_in_last(t), " of ", t.block_size,
                                 " tokens; fill it before another is appended"));
    if ((t.table.size() + 1) * t.block_size > kMaxTokens) throw InvalidArgument("a page table holds at most 2^31 - 1 tokens");
    t.table.make_room(t.table.size() + 1);
    t.table.push(static_cast<BlockId>(block));
}

void set_filled_in_last(Table& t, nb::handle value) {
    const std::int64_t tokens = to_int(value, "filled_in_last");
    if (t.table.size() == 0) throw SequenceState("the page table is empty; append a block before its fill is set");
    if (tokens < 0 || tokens > t.block_size)
        throw InvalidArgument(join("filled_in_last is ", tokens, "; a block holds 0 to ", t.block_size, " tokens"));
    t.table.set_tokens((t.table.size() - 1) * t.block_size + tokens);
}

std::int32_t physical_id(const Table& t, nb::handle value) {
    const std::int64_t index = to_int(value, "index");
    if (index < 0 || index >= t.table.size())
        throw InvalidArgument(
            join("logical block ", index, " does not exist; this page table has ", t.table.size(), " blocks"));
    return t.table[index];
}

nb::object entries(const Table& t) {
    const auto ids = t.table.entries();
    auto copy = std::make_unique_for_overwrite<std::int32_t[]>(ids.size());
    std::copy(ids.begin(), ids.end(), copy.get());
    return own(std::move(copy), static_cast<std::int64_t>(ids.size()));
}

void bind_page_table(nb::module_& m) {
    using namespace nb::literals;
    nb::class_<Table>(m, "PageTable",
                      "Logical block index -> physical block id, and the number of tokens stored.\n\n"
                      "Stands alone; from KVCacheManager.get_page_table it is a snapshot that later calls do not change.")
        .def(
            "__init__",
            [](Table* self, nb::handle size) {
                new (self) Table{PageTable{}, checked_block_size(size)};
            },
            "block_size"_a.none(), nb::sig("def __init__(self, block_size: int) -> None"))
        .def("append_block", &append_block, "block_id"_a.none(), nb::sig("def append_block(self, block_id: int) -> None"),
             "Add a physical block, empty so far. Errors: SequenceStateError if the last block is not full.")
        .def("get_physical_id", &physical_id, "index"_a.none(), nb::sig("def get_physical_id(self, index: int) -> int"),
             "The physical block of a logical block index.")
        .def("set_filled_in_last", &set_filled_in_last, "tokens"_a.none(),
             nb::sig("def set_filled_in_last(self, tokens: int) -> None"),
             "Set the tokens stored in the last block, 0 to block_size. Errors: SequenceStateError without blocks.")
        .def_prop_ro("filled_in_last", &filled_in_last, "Tokens stored in the last block; 0 while it is only reserved.")
        .def_prop_ro("num_blocks", [](const Table& t) { return t.table.size(); })
        .def_prop_ro("num_tokens", [](const Table& t) { return t.table.tokens(); })
        .def_prop_ro("block_size", [](const Table& t) { return t.block_size; })
        .def_prop_ro("entries", &entries, nb::sig("def entries(self) -> numpy.typing.NDArray[numpy.int32]"),
                     "Physical block ids, int32 [num_blocks]; a copy.")
        .def(
            "clear", [](Table& t) { t.table.clear(); }, "Forget all blocks; nothing is freed.")
        .def("__repr__",
             [](const Table& t) {
                 return nb::str("PageTable(num_blocks={}, num_tokens={}, block_size={})")
                     .format(t.table.size(), t.table.tokens(), t.block_size);
             })
        .def("__len__", [](const Table& t) { return t.table.size(); });
}

struct Field {
    const char* name;
    nb::object (*value)(const CacheStats&);
};

template <auto Member>
nb::object of(const CacheStats& s) {
    if constexpr (std::is_member_function_pointer_v<decltype(Member)>) return nb::cast((s.*Member)());
    else return nb::cast(s.*Member);
}

constexpr Field kFields[] = {
    {"total_blocks", of<&CacheStats::total_blocks>},
    {"free_blocks", of<&CacheStats::free_blocks>},
    {"clean_blocks", of<&CacheStats::clean_blocks>},
    {"cached_blocks", of<&CacheStats::cached_blocks>},
    {"allocated_blocks", of<&CacheStats::allocated_blocks>},
    {"pending_blocks", of<&CacheStats::pending_blocks>},
    {"active_sequences", of<&CacheStats::active_sequences>},
    {"logical_tokens", of<&CacheStats::logical_tokens>},
    {"stored_tokens", of<&CacheStats::stored_tokens>},
    {"utilization_percent", of<&CacheStats::utilization_percent>},
    {"token_utilization_percent", of<&CacheStats::token_utilization_percent>},
    {"internal_frag_percent", of<&CacheStats::internal_frag_percent>},
    {"external_frag_percent", of<&CacheStats::external_frag_percent>},
    {"logical_blocks", of<&CacheStats::logical_blocks>},
    {"saved_blocks", of<&CacheStats::saved_blocks>},
    {"cow_copies", of<&CacheStats::cow_copies>},
    {"evictions", of<&CacheStats::evictions>},
    {"peak_allocated_blocks", of<&CacheStats::peak_allocated_blocks>},
    {"queried_tokens", of<&CacheStats::queried_tokens>},
    {"hit_tokens", of<&CacheStats::hit_tokens>},
    {"failed_admissions", of<&CacheStats::failed_admissions>},
};

nb::dict as_dict(const CacheStats& s) {
    nb::dict fields;
    for (const Field& field : kFields) fields[field.name] = field.value(s);
    return fields;
}

void bind_stats(nb::module_& m) {
    nb::class_<CacheStats>(m, "CacheStats",
                           "A frozen snapshot in O(1). Blocks are block counts, tokens token counts, percentages 0 to 100.\n\n"
                           "logical_* count shared content once a sequence, stored_tokens and allocated_blocks once.")
        .def_prop_ro("total_blocks", [](const CacheStats& s) { return s.total_blocks; })
        .def_prop_ro("free_blocks", &CacheStats::free_blocks, "clean + cached: what can be handed out now.")
        .def_prop_ro("clean_blocks", [](const CacheStats& s) { return s.clean_blocks; })
        .def_prop_ro("cached_blocks", [](const CacheStats& s) { return s.cached_blocks; })
        .def_prop_ro("allocated_blocks", &CacheStats::allocated_blocks, "in use + pending.")
        .def_prop_ro("pending_blocks", [](const CacheStats& s) { return s.pending_blocks; })
        .def_prop_ro("active_sequences", [](const CacheStats& s) { return s.active_sequences; })
        .def_prop_ro(
            "logical_tokens", [](const CacheStats& s) { return s.logical_tokens; }, "Sum of lengths.")
        .def_prop_ro(
            "stored_tokens", [](const CacheStats& s) { return s.stored_tokens; }, "Sum of fill over in-use blocks.")
        .def_prop_ro("utilization_percent", &CacheStats::utilization_percent, "100 * allocated_blocks / total_blocks.")
        .def_prop_ro("token_utilization_percent", &CacheStats::token_utilization_percent,
                     "100 * stored_tokens / (total_blocks * block_size).")
        .def_prop_ro("internal_frag_percent", &CacheStats::internal_frag_percent,
                     "100 * (1 - stored_tokens / (in-use blocks * block_size)); shared blocks count once.")
        .def_prop_ro("external_frag_percent", &CacheStats::external_frag_percent,
                     "Always 0: any free block serves any request.")
        .def_prop_ro(
            "logical_blocks", [](const CacheStats& s) { return s.logical_blocks; }, "Page-table entries.")
        .def_prop_ro("saved_blocks", &CacheStats::saved_blocks, "Page-table entries less the distinct blocks they hold.")
        .def_prop_ro("cow_copies", [](const CacheStats& s) { return s.cow_copies; })
        .def_prop_ro("evictions", [](const CacheStats& s) { return s.evictions; })
        .def_prop_ro("peak_allocated_blocks", [](const CacheStats& s) { return s.peak_allocated_blocks; })
        .def_prop_ro("queried_tokens", [](const CacheStats& s) { return s.queried_tokens; })
        .def_prop_ro("hit_tokens", [](const CacheStats& s) { return s.hit_tokens; })
        .def_prop_ro(
            "failed_admissions", [](const CacheStats& s) { return s.failed_admissions; },
            "Refused for want of blocks at that moment.")
        .def("as_dict", &as_dict, nb::sig("def as_dict(self) -> dict[str, int | float]"), "All fields by name.")
        .def(
            "__eq__",
            [](const CacheStats& s, nb::handle other) {
                return nb::isinstance<CacheStats>(other) && as_dict(s).equal(as_dict(nb::cast<const CacheStats&>(other)));
            },
            nb::sig("def __eq__(self, other: object, /) -> bool"))
        .def("__hash__", [](const CacheStats& s) { return nb::hash(nb::tuple(as_dict(s).values())); })
        .def("__repr__", [](const CacheStats& s) { return nb::str("CacheStats({})").format(as_dict(s)); });
}

}  // namespace

nb::object page_table_of(const PageTable& table, std::int32_t block_size) {
    return nb::cast(Table{table, block_size}, nb::rv_policy::move);
}

void bind_results(nb::module_& m) {
    bind_page_table(m);
    bind_stats(m);
    nb::class_<Admission>(m, "Admission", "What admit decided; frozen.")
        .def_ro("seq_id", &Admission::seq_id)
        .def_ro("row", &Admission::row, "The sequence's line in the device-resident block tables, fixed for its life.")
        .def_ro("cached_tokens", &Admission::cached_tokens, "Leading tokens found in the cache; the sequence's length now.")
        .def("__repr__", [](const Admission& a) {
            return nb::str("Admission(seq_id={}, row={}, cached_tokens={})").format(a.seq_id, a.row, a.cached_tokens);
        });
    nb::class_<CsrTables>(m, "CsrTables", "Block tables in FlashInfer's form; frozen, the arrays are the caller's.")
        .def_prop_ro(
            "indptr", [](const CsrTables& c) { return c.indptr; },
            nb::sig("def indptr(self) -> numpy.typing.NDArray[numpy.int32]"),
            "int32 [n + 1]: entries of sequence i are indices[indptr[i]:indptr[i + 1]].")
        .def_prop_ro(
            "indices", [](const CsrTables& c) { return c.indices; },
            nb::sig("def indices(self) -> numpy.typing.NDArray[numpy.int32]"), "int32: block ids, one sequence after another.")
        .def_prop_ro(
            "last_page_len", [](const CsrTables& c) { return c.last_page_len; },
            nb::sig("def last_page_len(self) -> numpy.typing.NDArray[numpy.int32]"),
            "int32 [n]: tokens in the last block, 1..block_size; 0 for an empty sequence.");
}

}  // namespace pagedkv::bindings
