#include "bindings.hpp"

namespace pagedkv::bindings {

namespace {

using Self = nb::handle_t<StepPlan>;

const StepPlan& plan_of(Self self) { return initialized(self); }

nb::object slots(Self self) { return view(self, plan_of(self).slots().data(), plan_of(self).counts().slots); }
nb::object rows(Self self) { return view(self, plan_of(self).rows().data(), plan_of(self).counts().served); }
nb::object lengths(Self self) { return view(self, plan_of(self).lengths().data(), plan_of(self).counts().served); }
nb::object copies(Self self) { return view(self, plan_of(self).copies().data(), plan_of(self).counts().copies, 2); }
nb::object updates(Self self) { return view(self, plan_of(self).updates().data(), plan_of(self).counts().updates, 3); }

nb::bytes to_bytes(const StepPlan& plan) {
    const std::string bytes = plan.to_bytes();
    return nb::bytes(bytes.data(), bytes.size());
}

StepPlan from_bytes(nb::handle data) {
    if (!nb::isinstance<nb::bytes>(data)) throw InvalidArgument("from_bytes takes the bytes that to_bytes made");
    const auto bytes = nb::borrow<nb::bytes>(data);
    return StepPlan::from_bytes({bytes.c_str(), bytes.size()});
}

}  // namespace

void bind_plan(nb::module_& m) {
    using namespace nb::literals;
#define INT32_ARRAY(name) nb::sig("def " name "(self) -> numpy.typing.NDArray[numpy.int32]")
    nb::class_<StepPlan>(
        m, "StepPlan",
        "What one batched call decided: slots, copies, table updates. A pool carries it out.\n\n"
        "It owns its storage; each array is a view made when it is read, which keeps the plan alive. Valid for ever:\n"
        "later calls do not change it. Apply plans in the order of their steps, before the model's kernels.")
        .def_prop_ro(
            "step", [](const StepPlan& p) { return p.step; }, "The plan's number; steps only grow.")
        .def_prop_ro(
            "served", [](const StepPlan& p) { return p.counts().served; },
            "Leading sequences of the batch that were served: all of them, or fewer with partial=True.")
        .def_prop_ro("slots", &slots, nb::sig("def slots(self) -> numpy.typing.NDArray[numpy.int64]"),
                     "int64 [sum of counts served]: where each appended token goes, block * block_size + offset.")
        .def_prop_ro("rows", &rows, INT32_ARRAY("rows"), "int32 [served]: rows of the device-resident block tables.")
        .def_prop_ro("lengths", &lengths, INT32_ARRAY("lengths"), "int32 [served]: tokens stored after this call.")
        .def_prop_ro("copies", &copies, INT32_ARRAY("copies"),
                     "int32 [m, 2]: whole blocks to copy (source, destination) before anything is written.")
        .def_prop_ro("updates", &updates, INT32_ARRAY("updates"), "int32 [k, 3]: changed table entries (row, column, block).")
        .def("to_bytes", &to_bytes, nb::sig("def to_bytes(self) -> bytes"),
             "The plan as bytes, for the other processes of a tensor-parallel group.")
        .def_static("from_bytes", &from_bytes, "data"_a.none(), nb::sig("def from_bytes(data: bytes) -> StepPlan"),
                    "The plan that to_bytes wrote. Errors: InvalidArgumentError on anything else.")
        .def("__getstate__", &to_bytes, nb::sig("def __getstate__(self) -> bytes"))
        .def(
            "__setstate__", [](StepPlan& self, nb::handle state) { new (&self) StepPlan(from_bytes(state)); },
            nb::sig("def __setstate__(self, state: bytes, /) -> None"))
        .def("__repr__", [](const StepPlan& p) {
            return nb::str("StepPlan(step={}, served={}, slots={}, copies={}, updates={})")
                .format(p.step, p.counts().served, p.counts().slots, p.counts().copies, p.counts().updates);
        });
#undef INT32_ARRAY
}

}  // namespace pagedkv::bindings
