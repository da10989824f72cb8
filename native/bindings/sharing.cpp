// fork and reorder: sequences that share blocks copy-on-write.
#include "manager_calls.hpp"

namespace pagedkv::bindings {

namespace {

void fork(Manager& self, nb::handle parent_id, nb::handle child_ids) {
    const std::int64_t parent = to_seq_id(parent_id, "parent_id");
    const Int64s children = to_int64s(child_ids, "child_ids", Beyond::refuse);
    locked(self, [&](SequenceStore& s) { s.fork(parent, children.span()); });
}

nb::object reorder(Manager& self, nb::handle seq_ids, nb::handle parent_indices) {
    const Int64s ids = to_int64s(seq_ids, "seq_ids", Beyond::refuse);
    const Int64s parents = to_int64s(parent_indices, "parent_indices", Beyond::refuse);
    return result_of<StepPlan>(self, [&](SequenceStore& s, StepPlan& plan) { s.reorder(ids.span(), parents.span(), plan); });
}

}  // namespace

void bind_sharing(nb::class_<Manager>& c) {
    using namespace nb::literals;
    c.def("fork", &fork, "parent_id"_a.none(), "child_ids"_a.none(),
          nb::sig("def fork(self, parent_id: int, child_ids: numpy.typing.ArrayLike) -> None"),
          "Register `child_ids` (int64 [n]) as copies of a sequence that share its blocks; takes no block. Atomic.\n\n"
          "The children have the parent's length, committed tokens and known ids. Blocks that hold tokens are shared, what\n"
          "the parent has only reserved is not; whoever writes into a shared block first gets a copy of it (append, reserve).\n"
          "All are equal afterwards: free them in any order. Cost: O(blocks of the parent) a child.\n"
          "Modifies: the children, their rows, reference counts. Stream: no work of its own; the next plan that names a child\n"
          "carries its row. Errors: SequenceStateError (unknown parent, a child's id is live), InvalidArgumentError (repeated\n"
          "child).");
    c.def(
        "reorder", &reorder, "seq_ids"_a.none(), "parent_indices"_a.none(),
        nb::sig("def reorder(self, seq_ids: numpy.typing.ArrayLike, parent_indices: numpy.typing.ArrayLike) -> StepPlan"),
        "The beam step: seq_ids[i] becomes what seq_ids[parent_indices[i]] was before the call. Atomic.\n\n"
        "seq_ids: int64 [n], each once; parent_indices: int [n], places in this call's seq_ids, 0 .. n - 1, repeats allowed:\n"
        "any number of beam groups in one call. Ids and rows stay; tables, lengths, committed tokens and known ids are the\n"
        "parent's. Blocks that no sequence holds any more go back at once, reusable by work enqueued later on the compute\n"
        "stream. The plan has no slots and no copies, and table updates only for entries that changed.\n"
        "Cost: the table entries that a group of forks does not have in common; nothing of the prompt.\n"
        "Modifies: page tables, lengths, blocks. Stream: apply the plan as one of append.\n"
        "Errors: SequenceStateError (unknown id), InvalidArgumentError (repeated id, parent out of range).");
}

}  // namespace pagedkv::bindings
