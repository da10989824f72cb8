#include "harness.hpp"
#include "store_calls.hpp"
#include "store_operations.hpp"

using namespace calls;

namespace {

void block_table(SequenceStore& store, Injection& inject, std::int64_t less) {
    const Ids ids = store.seq_ids();
    std::int64_t width = -less;
    for (const SeqId id : ids) width = std::max(width, store.sequence(id).table.size() - less);
    Int32s out(ids.size() * static_cast<std::size_t>(std::max<std::int64_t>(width, 0)) + 3);
    inject([&] { store.block_table(ids, out, width, store.pad_block(std::nullopt)); });
    inject.result = harness::shown(out);
}

void table_width(SequenceStore& store, Injection& inject) {
    const Ids ids = store.seq_ids();
    std::int64_t width = 0;
    inject([&] { width = store.table_width(ids); });
    inject.result = std::to_string(width);
}

void slot_mapping(SequenceStore& store, Injection& inject, std::int64_t beyond) {
    const Ids ids = store.seq_ids();
    Ids stops, out(2000);
    for (const SeqId id : ids) stops.push_back(store.sequence(id).table.size() * store.math().size() + beyond);
    inject([&] {
        store.slot_count(ids, std::nullopt, SequenceStore::Ids(stops));
        store.slot_mapping(out);
    });
    inject.result = harness::shown(out);
}

void csr(SequenceStore& store, Injection& inject) {
    const Ids ids = store.seq_ids();
    Int32s indptr(ids.size() + 2), indices(500), last(ids.size() + 1);
    inject([&] {
        store.csr_pages(ids);
        store.csr(indptr, indices, last);
    });
    inject.result = harness::shown(indptr) + harness::shown(indices) + harness::shown(last);
}

void seq_lens(SequenceStore& store, Injection& inject) {
    const Ids ids = store.seq_ids();
    Int32s out(ids.size() + 2);
    inject([&] { store.seq_lens(ids, out); });
    inject.result = harness::shown(out);
}

void seq_ids(SequenceStore& store, Injection& inject) {
    Ids ids;
    inject([&] { ids = store.seq_ids(); });
    inject.result = harness::shown(ids);
}

void unknown_export(SequenceStore& store, Injection& inject) {
    Ids ids = store.seq_ids();
    ids.push_back(-77);
    inject([&] { store.csr_pages(ids); });
}

}  // namespace

std::vector<StoreOperation> export_operations() {
    return {
        {"table width", table_width},
        {"block table", [](auto& store, auto& inject) { block_table(store, inject, 0); }},
        {"block table, too narrow", [](auto& store, auto& inject) { block_table(store, inject, 1); }},
        {"slot mapping", [](auto& store, auto& inject) { slot_mapping(store, inject, 0); }},
        {"slot mapping beyond the capacity", [](auto& store, auto& inject) { slot_mapping(store, inject, 1); }},
        {"csr", csr},
        {"sequence lengths", seq_lens},
        {"sequence ids", seq_ids},
        {"export of an unknown sequence", unknown_export},
        {"look up an unknown sequence", [](auto& store, auto& inject) { inject([&] { store.sequence(-77); }); }},
        {"a pad that is no block", [](auto& store, auto& inject) { inject([&] { store.pad_block(1 << 30); }); }},
        {"statistics", [](auto& store, auto& inject) { inject([&] { store.stats(); }); }, false},
        {"check", [](auto& store, auto& inject) { inject([&] { store.check(); }); }},
    };
}
