#include "failing_new.hpp"

#include <cstdlib>
#include <new>

namespace {

bool armed = false;
std::int64_t failing = 0;
failing_new::Mode failing_mode = failing_new::Mode::once;
failing_new::Report report;
std::int64_t live_now = 0;

bool fails_now() {
    if (!armed) return false;
    ++report.allocations;
    const bool fails = failing > 0 && (report.allocations == failing ||
                                       (failing_mode == failing_new::Mode::from_then_on && report.allocations > failing));
    if (fails) ++report.failures;
    return fails;
}

void* allocate(std::size_t size, std::size_t alignment) {
    if (fails_now()) return nullptr;
    const std::size_t rounded = (size + alignment) / alignment * alignment;  // aligned_alloc wants multiples; never 0
    void* memory = alignment > __STDCPP_DEFAULT_NEW_ALIGNMENT__ ? std::aligned_alloc(alignment, rounded) : std::malloc(rounded);
    if (memory) ++live_now;
    return memory;
}

void* allocate_or_throw(std::size_t size, std::size_t alignment) {
    void* memory = allocate(size, alignment);
    if (!memory) throw std::bad_alloc();
    return memory;
}

void release(void* memory) {
    if (memory) --live_now;
    std::free(memory);
}

constexpr std::size_t kPlain = __STDCPP_DEFAULT_NEW_ALIGNMENT__;

}  // namespace

namespace failing_new {

void arm(std::int64_t k, Mode mode) {
    failing = k;
    failing_mode = mode;
    report = {};
    armed = true;
}

Report disarm() {
    armed = false;
    return report;
}

std::int64_t live() { return live_now; }

}  // namespace failing_new

void* operator new(std::size_t size) { return allocate_or_throw(size, kPlain); }
void* operator new[](std::size_t size) { return allocate_or_throw(size, kPlain); }
void* operator new(std::size_t size, std::align_val_t a) { return allocate_or_throw(size, static_cast<std::size_t>(a)); }
void* operator new[](std::size_t size, std::align_val_t a) { return allocate_or_throw(size, static_cast<std::size_t>(a)); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return allocate(size, kPlain); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return allocate(size, kPlain); }
void operator delete(void* memory) noexcept { release(memory); }
void operator delete[](void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t) noexcept { release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }
