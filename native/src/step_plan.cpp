#include "pagedkv/step_plan.hpp"

#include <bit>
#include <cstring>

#include "pagedkv/errors.hpp"

namespace pagedkv {

namespace {
// "PKVP", format 1, little-endian: plans travel between the processes of one tensor-parallel group.
constexpr std::uint64_t kMagic = 0x0000000150564B50ULL;
constexpr std::size_t kHeaderWords = 6;
// Far above any real plan, far below overflow of the size computation.
constexpr std::int64_t kMostItems = std::int64_t{1} << 40;
}  // namespace

std::int64_t StepPlan::words(const Counts& c) { return c.slots + (2 * c.served + 2 * c.copies + 3 * c.updates + 1) / 2; }

void StepPlan::allocate(const Counts& counts) {
    if (const std::int64_t n = words(counts); n > 0) {
        data_ = std::make_unique_for_overwrite<std::int64_t[]>(size(n));
        data_[size(n - 1)] = 0;  // the padding half-word: plans of equal content have equal bytes
    }
    counts_ = counts;
}

std::string StepPlan::to_bytes() const {
    static_assert(std::endian::native == std::endian::little, "plans are little-endian; swap words here on other hosts");
    const std::int64_t header[kHeaderWords] = {
        static_cast<std::int64_t>(kMagic), step, counts_.served, counts_.slots, counts_.copies, counts_.updates};
    const std::size_t body = size(words(counts_)) * sizeof(std::int64_t);
    std::string bytes(sizeof header + body, '\0');
    std::memcpy(bytes.data(), header, sizeof header);
    if (body > 0) std::memcpy(bytes.data() + sizeof header, data_.get(), body);
    return bytes;
}

StepPlan StepPlan::from_bytes(std::string_view bytes) {
    std::int64_t header[kHeaderWords] = {};
    if (bytes.size() < sizeof header)
        throw InvalidArgument(join("a step plan has at least ", sizeof header, " bytes, got ", bytes.size()));
    std::memcpy(header, bytes.data(), sizeof header);
    if (static_cast<std::uint64_t>(header[0]) != kMagic)
        throw InvalidArgument("these bytes are not a step plan of format 1; use StepPlan.to_bytes of the same version");
    if (header[1] < 0) throw InvalidArgument(join("a step plan cannot have step ", header[1], "; the bytes are damaged"));
    const Counts counts{header[2], header[3], header[4], header[5]};
    for (const std::int64_t n : {counts.served, counts.slots, counts.copies, counts.updates})
        if (n < 0 || n > kMostItems)
            throw InvalidArgument(join("a step plan cannot hold ", n, " items; the bytes are damaged"));
    const std::uint64_t body = static_cast<std::uint64_t>(words(counts)) * sizeof(std::int64_t);
    if (bytes.size() - sizeof header != body)
        throw InvalidArgument(join("this step plan needs ", sizeof header + body, " bytes, got ", bytes.size()));
    StepPlan plan;
    plan.allocate(counts);
    plan.step = header[1];
    if (body > 0) std::memcpy(plan.data_.get(), bytes.data() + sizeof header, body);
    return plan;
}

}  // namespace pagedkv
