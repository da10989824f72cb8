// As much of CUDA C++ as the kernels use, for an ordinary compiler: a kernel becomes a function that one thread of one
// CTA runs, and the runner (cta_runner.hpp) calls it for every thread.
//
// Threads of a CTA run one after another, each up to its next barrier, so atomics are plain additions. Shared memory
// lies in a section of its own: the runner fills it with garbage before each CTA, as a GPU does.
#pragma once

#include <cstddef>

#define __global__
#define __device__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(threads)
#define __shared__ static __attribute__((section("cta_shared")))
#define __syncthreads() pagedkv_shim::barrier()

struct uint3 {
    unsigned int x, y, z;
};
using dim3 = uint3;
struct alignas(8) uint2 {
    unsigned int x, y;
};
// The alignment is CUDA's: a wide access to a narrower address is an error there, and found by UBSan here.
struct alignas(16) uint4 {
    unsigned int x, y, z, w;
};
struct alignas(16) ulonglong2 {
    unsigned long long x, y;
};

inline unsigned int __float_as_uint(float value) { return __builtin_bit_cast(unsigned int, value); }
inline float __uint_as_float(unsigned int bits) { return __builtin_bit_cast(float, bits); }
inline ulonglong2 make_ulonglong2(unsigned long long x, unsigned long long y) { return {x, y}; }

extern uint3 threadIdx, blockIdx;
extern dim3 gridDim, blockDim;

namespace pagedkv_shim {
void barrier();
}

template <class Number>
Number atomicAdd(Number* address, Number value) {
    const Number before = *address;
    *address = before + value;
    return before;
}
