#include <algorithm>
#include <functional>

#include "manager_calls.hpp"
#include "results.hpp"

namespace pagedkv::bindings {

namespace {

template <class T>
std::unique_ptr<T[]> room(std::int64_t n) {
    return std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(n));
}

[[noreturn]] void too_small(const char* name, std::int64_t needed, std::int64_t given) {
    throw InvalidArgument(join(name, " has room for ", given, " entries, ", needed, " are needed; give a larger array"));
}

nb::object block_table(Manager& self, nb::handle seq_ids, nb::handle out, nb::handle width, nb::handle pad) {
    const Int64s ids = to_int64s(seq_ids, "seq_ids", Beyond::refuse);
    const auto filler = to_optional_int(pad, "pad");
    const auto columns = to_optional_int(width, "width");
    if (columns && (*columns < 0 || *columns > kMaxTokens))
        throw InvalidArgument(join("width is ", *columns, "; give the columns of the table"));
    const auto n = static_cast<std::int64_t>(ids.span().size());
    if (!out.is_none()) {
        const Out<std::int32_t> target = out_int32(out, "out", 2);
        if (columns && *columns != target.cols)
            throw InvalidArgument(join("width is ", *columns, " but out has ", target.cols, " columns; give one of the two"));
        if (target.rows < n) too_small("out (rows)", n, target.rows);
        locked(self, [&](SequenceStore& s) { s.block_table(ids.span(), target.span, target.cols, s.pad_block(filler)); });
        return nb::borrow(out);
    }
    std::int64_t cols = 0;
    std::unique_ptr<std::int32_t[]> table;
    locked(self, [&](SequenceStore& s) {
        cols = columns ? *columns : s.table_width(ids.span());
        if (columns) (void)s.pad_block(filler);
        if (cols > 0 && n > kMaxTokens / cols)
            throw InvalidArgument(join("a table of ", n, " x ", cols, " entries is too large"));
        table = room<std::int32_t>(n * cols);
        s.block_table(ids.span(), {table.get(), static_cast<std::size_t>(n * cols)}, cols, s.pad_block(filler));
    });
    return own(std::move(table), n, cols);
}

nb::object slot_mapping(Manager& self, nb::handle seq_ids, nb::handle starts, nb::handle stops, nb::handle out) {
    const Int64s ids = to_int64s(seq_ids, "seq_ids", Beyond::refuse);
    const auto first = to_optional_int64s(starts, "starts", Beyond::saturate);
    const auto last = to_optional_int64s(stops, "stops", Beyond::saturate);
    const auto span_of = [](const std::optional<Int64s>& v) {
        return v ? std::optional<SequenceStore::Ids>(v->span()) : std::nullopt;
    };
    std::optional<Out<std::int64_t>> target;
    if (!out.is_none()) target = out_int64(out, "out");
    std::unique_ptr<std::int64_t[]> slots;
    std::int64_t n = 0;
    locked(self, [&](SequenceStore& s) {
        n = s.slot_count(ids.span(), span_of(first), span_of(last));
        if (target && target->rows < n) too_small("out", n, target->rows);
        if (!target) slots = room<std::int64_t>(n);
        s.slot_mapping(target ? target->span : std::span<std::int64_t>(slots.get(), static_cast<std::size_t>(n)));
    });
    return target ? nb::borrow(out) : own(std::move(slots), n);
}

bool overlap(std::span<const std::int32_t> a, std::span<const std::int32_t> b) {
    const std::less<> before;
    return !a.empty() && !b.empty() && before(a.data(), b.data() + b.size()) && before(b.data(), a.data() + a.size());
}

CsrTables csr_into(Manager& self, const Int64s& ids, nb::handle out) {
    if (!nb::isinstance<nb::tuple>(out) || nb::len(out) != 3)
        throw InvalidArgument("out must be a tuple of three int32 arrays (indptr, indices, last_page_len)");
    const nb::object indptr = out[0], indices = out[1], last = out[2];
    const auto a = out_int32(indptr, "indptr", 1), b = out_int32(indices, "indices", 1),
               c = out_int32(last, "last_page_len", 1);
    if (overlap(a.span, b.span) || overlap(b.span, c.span) || overlap(a.span, c.span))
        throw InvalidArgument("indptr, indices and last_page_len share memory; give three separate arrays");
    const auto n = static_cast<std::int64_t>(ids.span().size());
    if (a.rows < n + 1) too_small("indptr", n + 1, a.rows);
    if (c.rows < n) too_small("last_page_len", n, c.rows);
    locked(self, [&](SequenceStore& s) {
        const std::int64_t pages = s.csr_pages(ids.span());
        if (b.rows < pages) too_small("indices", pages, b.rows);
        s.csr(a.span, b.span, c.span);
    });
    return {indptr, indices, last};
}

CsrTables csr(Manager& self, nb::handle seq_ids, nb::handle out) {
    const Int64s ids = to_int64s(seq_ids, "seq_ids", Beyond::refuse);
    if (!out.is_none()) return csr_into(self, ids, out);
    const std::size_t n = ids.span().size();
    auto indptr = std::make_unique_for_overwrite<std::int32_t[]>(n + 1);
    auto last = std::make_unique_for_overwrite<std::int32_t[]>(n);
    std::unique_ptr<std::int32_t[]> indices;
    std::int64_t pages = 0;
    locked(self, [&](SequenceStore& s) {
        pages = s.csr_pages(ids.span());
        indices = room<std::int32_t>(pages);
        s.csr({indptr.get(), n + 1}, {indices.get(), static_cast<std::size_t>(pages)}, {last.get(), n});
    });
    const auto rows = static_cast<std::int64_t>(n);
    return {own(std::move(indptr), rows + 1), own(std::move(indices), pages), own(std::move(last), rows)};
}

nb::object seq_lens(Manager& self, nb::handle seq_ids, nb::handle out) {
    const Int64s ids = to_int64s(seq_ids, "seq_ids", Beyond::refuse);
    const auto n = static_cast<std::int64_t>(ids.span().size());
    if (!out.is_none()) {
        const auto target = out_int32(out, "out", 1);
        if (target.rows < n) too_small("out", n, target.rows);
        locked(self, [&](SequenceStore& s) { s.seq_lens(ids.span(), target.span); });
        return nb::borrow(out);
    }
    auto lengths = room<std::int32_t>(n);
    locked(self, [&](SequenceStore& s) { s.seq_lens(ids.span(), {lengths.get(), static_cast<std::size_t>(n)}); });
    return own(std::move(lengths), n);
}

}  // namespace

void bind_exports(nb::class_<KVCacheManager>& c) {
    using namespace nb::literals;
#define INT32S "numpy.typing.NDArray[numpy.int32]"
#define INT64S "numpy.typing.NDArray[numpy.int64]"
    c.def("block_table", &block_table, "seq_ids"_a.none(), nb::kw_only(), "out"_a = nb::none(), "width"_a = nb::none(),
          "pad"_a = nb::none(),
          nb::sig("def block_table(self, seq_ids: numpy.typing.ArrayLike, *, out: " INT32S " | None = None, "
                  "width: int | None = None, pad: int | None = None) -> " INT32S),
          "Dense block table, int32 [n, width]: row i holds the block ids of seq_ids[i], then padding.\n\n"
          "width: columns (None: the longest of the batch). out: the caller's array, filled to its end (extra rows are\n"
          "padding). pad: a block id, -1 on request; None: the scratch block if there is one, else 0, so that every entry\n"
          "can be read. Read-only; a copy. Errors: InvalidArgumentError (too narrow, too small), SequenceStateError.");
    c.def("slot_mapping", &slot_mapping, "seq_ids"_a.none(), nb::kw_only(), "starts"_a = nb::none(), "stops"_a = nb::none(),
          "out"_a = nb::none(),
          nb::sig("def slot_mapping(self, seq_ids: numpy.typing.ArrayLike, *, starts: numpy.typing.ArrayLike | None = None, "
                  "stops: numpy.typing.ArrayLike | None = None, out: " INT64S " | None = None) -> " INT64S),
          "Slots of positions starts[i] to stops[i] of each sequence, int64, one after another (None: 0 to length).\n\n"
          "stops may reach capacity. out: the caller's array; what is left over becomes -1. Read-only; a copy.\n"
          "Errors: InvalidArgumentError (beyond capacity, too small), SequenceStateError.");
    c.def("csr", &csr, "seq_ids"_a.none(), nb::kw_only(), "out"_a = nb::none(),
          nb::sig("def csr(self, seq_ids: numpy.typing.ArrayLike, *, out: tuple[" INT32S ", " INT32S ", " INT32S
                  "] | None = None) -> CsrTables"),
          "Block tables in FlashInfer's form, by length: last_page_len = ((length - 1) mod block_size) + 1, 0 for length 0.\n\n"
          "out: the caller's (indptr, indices, last_page_len); larger ones describe empty sequences after the batch.");
    c.def("seq_lens", &seq_lens, "seq_ids"_a.none(), nb::kw_only(), "out"_a = nb::none(),
          nb::sig("def seq_lens(self, seq_ids: numpy.typing.ArrayLike, *, out: " INT32S " | None = None) -> " INT32S),
          "Tokens stored, int32 [n]; what is left over of out becomes 0. Read-only; a copy.");
#undef INT32S
#undef INT64S
}

}  // namespace pagedkv::bindings
