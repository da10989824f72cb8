#include "pagedkv/step_plan.hpp"

#include <cstring>
#include <numeric>

#include "harness.hpp"
#include "pagedkv/errors.hpp"
#include "store_calls.hpp"

using pagedkv::InvalidArgument;
using pagedkv::StepPlan;

namespace {

StepPlan numbered(const StepPlan::Counts& counts, pagedkv::Step step) {
    StepPlan plan;
    plan.allocate(counts);
    plan.step = step;
    std::int32_t next = 1;
    for (std::int64_t& slot : plan.slots()) slot = (std::int64_t{1} << 40) + next++;
    for (const auto& part : {plan.rows(), plan.lengths(), plan.copies(), plan.updates()}) {
        std::iota(part.begin(), part.end(), next);
        next += static_cast<std::int32_t>(part.size());
    }
    return plan;
}

void same(const StepPlan& a, const StepPlan& b) {
    CHECK_EQ(a.step, b.step);
    CHECK_EQ(calls::list(a.slots()), calls::list(b.slots()));
    CHECK_EQ(calls::list(a.rows()), calls::list(b.rows()));
    CHECK_EQ(calls::list(a.lengths()), calls::list(b.lengths()));
    CHECK_EQ(calls::list(a.copies()), calls::list(b.copies()));
    CHECK_EQ(calls::list(a.updates()), calls::list(b.updates()));
}

// A header as to_bytes writes it, with counts that a caller made up.
std::string header(std::int64_t served, std::int64_t slots, std::int64_t copies, std::int64_t updates) {
    std::string bytes = StepPlan().to_bytes();
    const std::int64_t counts[] = {served, slots, copies, updates};
    std::memcpy(bytes.data() + 16, counts, sizeof counts);
    return bytes;
}

}  // namespace

TEST(an_empty_plan_has_no_parts) {
    const StepPlan plan;
    CHECK_EQ(plan.slots().size() + plan.rows().size() + plan.lengths().size(), std::size_t{0});
    CHECK_EQ(plan.copies().size() + plan.updates().size(), std::size_t{0});
    same(StepPlan::from_bytes(plan.to_bytes()), plan);
}

TEST(parts_do_not_overlap) {
    for (std::int64_t served = 0; served < 4; ++served)
        for (std::int64_t updates = 0; updates < 4; ++updates)
            for (std::int64_t slots = 0; slots < 4; ++slots) {
                const StepPlan plan = numbered({served, slots, 2, updates}, 9);
                std::int64_t next = 1;
                for (const std::int64_t slot : plan.slots()) CHECK_EQ(slot, (std::int64_t{1} << 40) + next++);
                for (const auto& part : {plan.rows(), plan.lengths(), plan.copies(), plan.updates()})
                    for (const std::int32_t value : part) CHECK_EQ(std::int64_t{value}, next++);
            }
}

TEST(bytes_and_back) {
    for (std::int64_t served = 0; served < 5; ++served)
        for (std::int64_t copies = 0; copies < 3; ++copies)
            for (std::int64_t updates = 0; updates < 5; ++updates) {
                const StepPlan plan = numbered({served, served + 3, copies, updates}, 123'456'789'012LL);
                const std::string bytes = plan.to_bytes();
                const StepPlan back = StepPlan::from_bytes(bytes);
                same(back, plan);
                CHECK_EQ(back.to_bytes(), bytes);  // equal content, equal bytes: the padding is defined
            }
}

TEST(bytes_of_any_other_length_are_refused) {
    const std::string bytes = numbered({2, 3, 1, 1}, 1).to_bytes();
    for (std::size_t size = 0; size < bytes.size(); ++size)
        CHECK_THROWS(InvalidArgument, StepPlan::from_bytes(std::string_view(bytes).substr(0, size)));
    CHECK_THROWS(InvalidArgument, StepPlan::from_bytes(bytes + '\0'));
}

TEST(damaged_headers_are_refused) {
    std::string other_magic = StepPlan().to_bytes();
    other_magic[0] ^= 1;
    CHECK_THROWS(InvalidArgument, StepPlan::from_bytes(other_magic));
    std::string other_version = StepPlan().to_bytes();
    other_version[4] ^= 3;
    CHECK_THROWS(InvalidArgument, StepPlan::from_bytes(other_version));
    const std::int64_t huge = std::numeric_limits<std::int64_t>::max();
    for (const std::int64_t n :
         {std::int64_t{-1}, std::int64_t{1}, std::int64_t{1} << 40, std::int64_t{1} << 61, huge, -huge - 1}) {
        CHECK_THROWS(InvalidArgument, StepPlan::from_bytes(header(n, 0, 0, 0)));
        CHECK_THROWS(InvalidArgument, StepPlan::from_bytes(header(0, n, 0, 0)));
        CHECK_THROWS(InvalidArgument, StepPlan::from_bytes(header(0, 0, n, 0)));
        CHECK_THROWS(InvalidArgument, StepPlan::from_bytes(header(0, 0, 0, n)));
        CHECK_THROWS(InvalidArgument, StepPlan::from_bytes(header(n, n, n, n)));
    }
}
