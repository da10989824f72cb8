// Global operator new of the program that links failing_new.cpp, made to fail on demand.
#pragma once

#include <cstdint>

namespace failing_new {

enum class Mode { once, from_then_on };

// The k-th allocation from now on throws std::bad_alloc (k = 0: none does), and so do all after it if asked.
void arm(std::int64_t k, Mode mode = Mode::once);

struct Report {
    std::int64_t allocations = 0;  // asked for since arm()
    std::int64_t failures = 0;
};
Report disarm();

// Allocations that were not given back yet.
std::int64_t live();

}  // namespace failing_new
