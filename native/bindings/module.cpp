#include "bindings.hpp"

NB_MODULE(_core, m) {
    using namespace pagedkv::bindings;
#ifdef NDEBUG
    // What a framework keeps in its globals outlives the interpreter; that is no leak of ours to report to every user.
    nb::set_leak_warnings(false);
#endif
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
