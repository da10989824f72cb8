// What the binding files share: conversion of arguments and results. Errors leave as the types of errors.hpp.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "pagedkv/block_allocator.hpp"
#include "pagedkv/errors.hpp"
#include "pagedkv/manager.hpp"

namespace nb = nanobind;

namespace pagedkv::bindings {

// Values beyond int64: lengths and counts saturate (the core then says what cannot fit), ids are refused.
enum class Beyond { refuse, saturate };

// A private int64 copy of an argument: the caller's array may change while the lock is held, this cannot.
class Int64s {
public:
    explicit Int64s(std::size_t n)
        : size_(n), heap_(n > kInline ? std::make_unique_for_overwrite<std::int64_t[]>(n) : nullptr) {}
    std::int64_t* data() { return heap_ ? heap_.get() : inline_; }
    std::span<const std::int64_t> span() const { return {heap_ ? heap_.get() : inline_, size_}; }

private:
    static constexpr std::size_t kInline = 8;
    std::size_t size_;
    std::unique_ptr<std::int64_t[]> heap_;
    std::int64_t inline_[kInline];
};

Int64s to_int64s(nb::handle value, const char* name, Beyond beyond);
std::optional<Int64s> to_optional_int64s(nb::handle value, const char* name, Beyond beyond);
std::int64_t to_int(nb::handle value, const char* name);  // saturates
bool is_integer(nb::handle value);                        // one Python or NumPy integer
std::uint64_t to_address(nb::handle value, const char* name);
SeqId to_seq_id(nb::handle value, const char* name = "seq_id");  // refuses what does not fit
std::optional<std::int64_t> to_optional_int(nb::handle value, const char* name);

// Token ids: a 1-D int32 array (or list) whose values fit 32 bits. Their values are copied only where they are needed.
struct TokenArray {
    std::int64_t count = 0;
    std::unique_ptr<std::int32_t[]> ids;
};
enum class Values { needed, ignored };
TokenArray to_tokens(nb::handle value, const char* name, Values values);

// A view of memory that `owner` keeps alive: no copy. cols < 0: one dimension.
nb::object view(nb::handle owner, std::int32_t* data, std::int64_t rows, std::int64_t cols = -1);
nb::object view(nb::handle owner, std::int64_t* data, std::int64_t rows);
// A fresh array that owns `data`.
nb::object own(std::unique_ptr<std::int32_t[]> data, std::int64_t rows, std::int64_t cols = -1);
nb::object own(std::unique_ptr<std::int64_t[]> data, std::int64_t rows);

// A caller's output array: right dtype, C-contiguous, aligned, writable, `dims` dimensions; else InvalidArgument.
template <class T>
struct Out {
    std::span<T> span;
    std::int64_t rows = 0, cols = 0;
};
Out<std::int32_t> out_int32(nb::handle value, const char* name, int dims);
Out<std::int64_t> out_int64(nb::handle value, const char* name);

// One allocator behind one lock: its own, or that of the manager it belongs to.
struct AllocatorHandle {
    std::shared_ptr<void> owner;
    BlockAllocator* blocks;
    std::mutex* mutex;
};

// The C++ object inside `self`, for methods that need both: nanobind checks a handle_t's type, but not that
// __init__ has run (a subclass may forget it, __new__ alone skips it).
template <class T>
T& initialized(nb::handle_t<T> self) {
    if (!nb::inst_ready(self)) throw nb::type_error("this object was never initialized; call its __init__ first");
    return *nb::inst_ptr<T>(self);
}

bool import_numpy();
void bind_errors(nb::module_& m);
void bind_allocator(nb::module_& m);
void bind_results(nb::module_& m);
void bind_plan(nb::module_& m);
void bind_manager(nb::module_& m);
void bind_exports(nb::class_<KVCacheManager>& manager);
void bind_sharing(nb::class_<KVCacheManager>& manager);
void bind_admission(nb::class_<KVCacheManager>& manager);
void bind_prefix_reuse(nb::class_<KVCacheManager>& manager);
void bind_events(nb::module_& m);
void bind_tensors(nb::module_& m);

}  // namespace pagedkv::bindings
