// StepPlan is what one batched call decided; a pool carries it out. It owns one array that holds all parts:
//
//   slots int64[slots] | rows int32[served] | lengths int32[served] | copies int32[copies][2] | updates int32[updates][3]
//
// copies are (source, destination) of whole blocks, and no source is a destination of the same plan; updates are
// (row, column, block) of the device-resident block tables. Everything is allocated before the first change, so
// filling cannot fail. Copies of a plan are independent of the store: no thread rule, valid for ever.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "pagedkv/types.hpp"

namespace pagedkv {

class StepPlan {
public:
    struct Counts {
        std::int64_t served = 0, slots = 0, copies = 0, updates = 0;
    };

    StepPlan() = default;

    void allocate(const Counts& counts);  // throws std::bad_alloc before anything is set

    const Counts& counts() const { return counts_; }
    std::span<std::int64_t> slots() const { return {data_.get(), size(counts_.slots)}; }
    std::span<std::int32_t> rows() const { return {ints(), size(counts_.served)}; }
    std::span<std::int32_t> lengths() const { return {ints() + counts_.served, size(counts_.served)}; }
    std::span<std::int32_t> copies() const { return {ints() + 2 * counts_.served, size(2 * counts_.copies)}; }
    std::span<std::int32_t> updates() const {
        return {ints() + 2 * counts_.served + 2 * counts_.copies, size(3 * counts_.updates)};
    }

    std::string to_bytes() const;
    static StepPlan from_bytes(std::string_view bytes);  // throws InvalidArgument

    Step step = 0;

private:
    static std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }
    static std::int64_t words(const Counts& counts);
    std::int32_t* ints() const { return reinterpret_cast<std::int32_t*>(data_.get() + counts_.slots); }

    std::unique_ptr<std::int64_t[]> data_;
    Counts counts_;
};

}  // namespace pagedkv
