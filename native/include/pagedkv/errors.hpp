// Typed errors. Whoever throws one has changed nothing; the message says what was asked, what there is, what to do.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

namespace pagedkv {

struct Error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Transient: the same call can succeed once something is freed or retired.
struct OutOfBlocks : Error {
    OutOfBlocks(const std::string& what, std::int64_t needed_, std::int64_t available_, std::int64_t pending_)
        : Error(what), needed(needed_), available(available_), pending(pending_) {}
    std::int64_t needed, available, pending;
};

// Permanent: it would not fit an idle pool either.
struct NeverFits : Error {
    NeverFits(const std::string& what, std::int64_t needed_, std::int64_t total_)
        : Error(what), needed(needed_), total(total_) {}
    std::int64_t needed, total;
};

struct InvalidArgument : Error {
    using Error::Error;
};

// Unknown or duplicate sequence, double free: the handle is not in the state that the call needs.
struct SequenceState : Error {
    using Error::Error;
};

template <class... Parts>
std::string join(const Parts&... parts) {
    std::string text;
    const auto add = [&text](const auto& part) {
        if constexpr (requires { std::to_string(part); }) text += std::to_string(part);
        else text += part;
    };
    (add(parts), ...);
    return text;
}

}  // namespace pagedkv
