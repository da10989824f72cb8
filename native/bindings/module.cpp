#include "bindings.hpp"

NB_MODULE(_core, m) {
    using namespace pagedkv::bindings;
    m.doc() = "The C++ core of pagedkv: allocation, page tables, whole-batch sequence bookkeeping.";
    if (!import_numpy()) throw nb::python_error();
    bind_errors(m);
    bind_allocator(m);
    bind_results(m);
    bind_plan(m);
    bind_events(m);
    bind_manager(m);
    bind_tensors(m);
}
