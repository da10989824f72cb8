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

// The core reads token ids only where the index is on; elsewhere their number is enough.
inline Values values_of(const Manager& self) { return self.prefix_caching() ? Values::needed : Values::ignored; }

class OptionalTokens {
public:
    OptionalTokens(const Manager& self, nb::handle value) {
        if (!value.is_none()) tokens_ = to_tokens(value, "tokens", values_of(self));
    }
    std::optional<SequenceStore::TokenIds> ids() const {
        if (!tokens_) return std::nullopt;
        return SequenceStore::TokenIds{tokens_->count, tokens_->ids.get()};
    }

private:
    std::optional<TokenArray> tokens_;
};

}  // namespace pagedkv::bindings
