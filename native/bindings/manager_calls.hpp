// How a bound method calls the manager: without Python's lock, under its own.
#pragma once

#include "bindings.hpp"

namespace pagedkv::bindings {

using Manager = KVCacheManager;

template <class Work>
auto locked(Manager& self, Work&& work) {
    const nb::gil_scoped_release released;
    return self.locked(std::forward<Work>(work));
}

// The Python object exists before the work is done, so nothing can fail after the work.
template <class T, class Work>
nb::object result_of(Manager& self, Work&& work) {
    auto* result = new T();
    nb::object object = nb::cast(result, nb::rv_policy::take_ownership);
    locked(self, [&](SequenceStore& store) { work(store, *result); });
    return object;
}

template <class Call>
nb::object or_none(Call&& call) {
    try {
        return call();
    } catch (const OutOfBlocks&) {
        return nb::none();
    }
}

}  // namespace pagedkv::bindings
