#include <algorithm>

#include "program.hpp"

using Int32s = std::vector<std::int32_t>;

void Program::exports() {
    const Ids ids = in_.ids(), starts = in_.amounts(ids.size()), stops = in_.amounts(ids.size());
    Expectation expected = for_batch(ids);
    std::int64_t width = 0;
    if (!run(expected, [&] { width = store_.table_width(ids); })) return;
    Int32s table(static_cast<std::size_t>(width + 1) * ids.size()), lengths(ids.size() + 1), last(ids.size() + 1);
    store_.block_table(ids, table, width + 1, -1);
    store_.seq_lens(ids, lengths);
    Int32s indptr(ids.size() + 1), indices(static_cast<std::size_t>(store_.csr_pages(ids)));
    store_.csr(indptr, indices, last);
    std::int64_t page = 0;
    for (std::size_t i = 0; i < ids.size(); ++i) {
        const ModelSequence& s = at(ids[i]);
        demand(lengths[i] == s.length, "seq_lens");
        for (std::int64_t k = 0; k <= width; ++k) {
            const auto cell = table[i * static_cast<std::size_t>(width + 1) + static_cast<std::size_t>(k)];
            const auto size = static_cast<std::int64_t>(s.table.size());
            demand(cell == (k < size ? s.table[static_cast<std::size_t>(k)] : -1), "block_table");
        }
        for (std::int64_t k = 0; k < model_.blocks_for(s.length); ++k)
            demand(indices[static_cast<std::size_t>(page++)] == s.table[static_cast<std::size_t>(k)], "csr indices");
        demand(indptr[i + 1] == page, "csr indptr");
        demand(last[i] == (s.length == 0 ? 0 : (s.length - 1) % model_.size + 1), "csr last_page_len");
        if (starts[i] < 0 || stops[i] < starts[i] || stops[i] > model_.capacity(s)) expected.invalid = true;
    }
    std::int64_t count = 0;
    using Span = pagedkv::SequenceStore::Ids;
    if (!run(expected, [&] { count = store_.slot_count(ids, Span(starts), Span(stops)); })) return;
    Ids slots(static_cast<std::size_t>(count) + 1);
    store_.slot_mapping(slots);
    std::size_t slot = 0;
    for (std::size_t i = 0; i < ids.size(); ++i)
        for (std::int64_t p = starts[i]; p < stops[i]; ++p)
            demand(slots[slot++] == at(ids[i]).table[static_cast<std::size_t>(p / model_.size)] * model_.size + p % model_.size,
                   "slot_mapping");
    demand(slots[slot] == -1 && slot + 1 == slots.size(), "padding of slot_mapping");
}

// A plan survives its bytes; damaged bytes are refused or give some plan, but never harm.
void Program::plan_bytes() {
    std::string bytes = last_plan_.to_bytes();
    demand(pagedkv::StepPlan::from_bytes(bytes).to_bytes() == bytes, "bytes of a plan");
    for (std::int64_t n = in_.below(4); n > 0; --n) bytes[in_.byte() % bytes.size()] = static_cast<char>(in_.byte());
    if (in_.flag()) bytes.resize(in_.byte());
    try {
        demand(pagedkv::StepPlan::from_bytes(bytes).to_bytes() == bytes, "bytes of a damaged plan");
    } catch (const pagedkv::InvalidArgument&) {
        return;
    }
}
