// The typed errors as Python exceptions, with the numbers that an engine wants as attributes.
#include "bindings.hpp"

namespace pagedkv::bindings {

namespace {

struct Types {
    PyObject *base, *out_of_blocks, *never_fits, *invalid_argument, *sequence_state;
};
Types types;

PyObject* make(nb::module_& m, const char* name, const char* doc, PyObject* bases) {
    PyObject* type = PyErr_NewExceptionWithDoc(join("pagedkv._core.", name).c_str(), doc, bases, nullptr);
    if (type == nullptr) throw nb::python_error();
    m.attr(name) = nb::handle(type);
    return type;  // lives as long as the process
}

void raise(PyObject* type, const Error& error, std::initializer_list<std::pair<const char*, std::int64_t>> numbers) {
    nb::object instance = nb::handle(type)(error.what());
    for (const auto& [name, value] : numbers) instance.attr(name) = value;
    PyErr_SetObject(type, instance.ptr());
}

void translate(const std::exception_ptr& thrown, void*) {
    try {
        std::rethrow_exception(thrown);
    } catch (const OutOfBlocks& e) {
        raise(types.out_of_blocks, e, {{"needed", e.needed}, {"available", e.available}, {"pending", e.pending}});
    } catch (const NeverFits& e) {
        raise(types.never_fits, e, {{"needed", e.needed}, {"total", e.total}});
    } catch (const InvalidArgument& e) {
        PyErr_SetString(types.invalid_argument, e.what());
    } catch (const SequenceState& e) {
        PyErr_SetString(types.sequence_state, e.what());
    } catch (const Error& e) {
        PyErr_SetString(types.base, e.what());
    }
}

}  // namespace

void bind_errors(nb::module_& m) {
    types.base = make(m, "PagedKVError", "Base of every error that pagedkv raises. Nothing was changed.", PyExc_Exception);
    types.out_of_blocks = make(m, "OutOfBlocksError",
                               "Not enough blocks now; the same call can succeed after a free or retire.\n\n"
                               "Attributes: needed, available, pending (blocks).",
                               types.base);
    types.never_fits =
        make(m, "NeverFitsError", "It would not fit an idle pool either: reject it.\n\nAttributes: needed, total (blocks).",
             types.base);
    const nb::tuple bases = nb::make_tuple(nb::handle(types.base), nb::handle(PyExc_ValueError));
    types.invalid_argument = make(m, "InvalidArgumentError", "A value that no call can take. Also a ValueError.", bases.ptr());
    types.sequence_state = make(m, "SequenceStateError",
                                "The sequence or block is not in the state that the call needs: unknown or duplicate id, "
                                "double free.",
                                types.base);
    nb::register_exception_translator(translate, nullptr);
}

}  // namespace pagedkv::bindings
