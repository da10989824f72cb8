// Runs a grid of CTAs on one thread of the host.
//
// Every CUDA thread is a fiber: it runs until it returns or reaches a barrier, then the next one runs. A barrier that some
// threads of a CTA reach while others have returned ends the program, as it may hang a GPU. What may not depend on the
// order of threads is shown by running them in reverse.
#pragma once

#include <cstdint>
#include <functional>

#include "cuda_shim.hpp"

namespace pagedkv_shim {

struct Launch {
    dim3 grid;
    std::uint32_t threads;
    bool reversed;  // last thread of the last CTA first
};

// Calls `thread` once for every thread of the grid, with threadIdx, blockIdx, gridDim and blockDim set.
void run(const Launch& launch, const std::function<void()>& thread);

}  // namespace pagedkv_shim
