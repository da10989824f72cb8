#include "cta_runner.hpp"

#include <ucontext.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

uint3 threadIdx, blockIdx;
dim3 gridDim, blockDim;

// The linker's names for the ends of the section; absent when a kernel has no shared memory.
extern char __start_cta_shared[] __attribute__((weak));
extern char __stop_cta_shared[] __attribute__((weak));

namespace pagedkv_shim {
namespace {

constexpr std::size_t kStackBytes = 128 * 1024;

struct Fiber {
    ucontext_t context;
    std::unique_ptr<char[]> stack{new char[kStackBytes]};
    std::uint32_t thread = 0;
    bool done = false;
};

ucontext_t scheduler;
Fiber* current = nullptr;
const std::function<void()>* body = nullptr;

void enter() {
    (*body)();
    current->done = true;
    swapcontext(&current->context, &scheduler);
}

void resume(Fiber& fiber) {
    current = &fiber;
    threadIdx = {fiber.thread, 0, 0};
    swapcontext(&scheduler, &fiber.context);
}

void start(Fiber& fiber, std::uint32_t thread) {
    fiber.thread = thread;
    fiber.done = false;
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = kStackBytes;
    makecontext(&fiber.context, enter, 0);
    resume(fiber);
}

// The sanitizers surround each variable of the section with memory that nobody may write; this function may.
__attribute__((no_sanitize("address"))) void spoil_shared_memory() {
    for (volatile char* at = __start_cta_shared; at != __stop_cta_shared; ++at) *at = static_cast<char>(0xA5);
}

void require_all_at_barrier(std::size_t waiting, std::uint32_t threads) {
    if (waiting == 0 || waiting == threads) return;
    std::fprintf(stderr, "barrier divergence: %zu of %u threads of CTA (%u, %u, %u) wait\n", waiting, threads, blockIdx.x,
                 blockIdx.y, blockIdx.z);
    std::exit(3);
}

// Fibers are kept from CTA to CTA; one whose thread has returned serves the next thread at once.
void run_cta(const Launch& launch, std::vector<std::unique_ptr<Fiber>>& fibers) {
    std::size_t waiting = 0;
    for (std::uint32_t i = 0; i < launch.threads; ++i) {
        if (waiting == fibers.size()) fibers.push_back(std::make_unique<Fiber>());
        start(*fibers[waiting], launch.reversed ? launch.threads - 1 - i : i);
        if (!fibers[waiting]->done) ++waiting;
    }
    while (waiting > 0) {
        require_all_at_barrier(waiting, launch.threads);
        std::size_t still = 0;
        for (std::uint32_t i = 0; i < launch.threads; ++i) {
            resume(*fibers[i]);
            if (!fibers[i]->done) ++still;
        }
        waiting = still;
    }
}

}  // namespace

void barrier() { swapcontext(&current->context, &scheduler); }

void run(const Launch& launch, const std::function<void()>& thread) {
    std::vector<std::unique_ptr<Fiber>> fibers;
    body = &thread;
    gridDim = launch.grid;
    blockDim = {launch.threads, 1, 1};
    const std::uint64_t ctas = std::uint64_t{launch.grid.x} * launch.grid.y * launch.grid.z;
    for (std::uint64_t i = 0; i < ctas; ++i) {
        const std::uint64_t at = launch.reversed ? ctas - 1 - i : i;
        blockIdx.x = static_cast<unsigned>(at % launch.grid.x);
        blockIdx.y = static_cast<unsigned>(at / launch.grid.x % launch.grid.y);
        blockIdx.z = static_cast<unsigned>(at / launch.grid.x / launch.grid.y);
        spoil_shared_memory();
        run_cta(launch, fibers);
    }
}

}  // namespace pagedkv_shim
