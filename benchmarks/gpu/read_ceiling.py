"""How fast the same scattered blocks can be read: by a kernel that loads K and V of every block, and no more."""

from collections.abc import Callable
from statistics import median

import numpy as np

from benchmarks.gpu.attention_case import Prepared
from benchmarks.gpu.device import call
from pagedkv.kernels.loader import compile_source

# A CTA takes one chunk of K or of V of one block. What is read ends in a condition that random bytes do not meet.
SOURCE = """
extern "C" __global__ void __launch_bounds__(THREADS)
    read_blocks(const char* k, const char* v, unsigned long long stride, unsigned int part, unsigned int chunks,
                const int* ids, uint4* sink) {
  const unsigned int chunk = blockIdx.x % (2 * chunks), block = blockIdx.x / (2 * chunks);
  const unsigned int at = chunk / 2 * (THREADS * UNROLL * 16) + threadIdx.x * 16;
  const char* from = (chunk % 2 ? v : k) + (unsigned long long)ids[block] * stride + at;
  uint4 x[UNROLL] = {};
#pragma unroll
  for (int i = 0; i < UNROLL; ++i)
    if (at + i * THREADS * 16 < part)
      asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(x[i].x), "=r"(x[i].y), "=r"(x[i].z), "=r"(x[i].w)
                   : "l"(from + i * THREADS * 16));
  uint4 all = {};
#pragma unroll
  for (int i = 0; i < UNROLL; ++i) all.x ^= x[i].x, all.y ^= x[i].y, all.z ^= x[i].z, all.w ^= x[i].w;
  if (all.x == 1 && all.y == 2 && all.z == 3 && all.w == 4) *sink = all;
}
"""
VARIANTS = ((128, 4), (128, 8), (256, 4), (256, 8), (512, 4), (1024, 2))


def read_ceiling(prepared: Prepared, count: int) -> tuple[float, str]:
    """Microseconds a layer of the fastest variant over all blocks of the case, and which it is."""
    case = prepared.case
    ids = np.concatenate([row[:needed] for row, needed in zip(prepared.entries, case.needed, strict=True)])
    device, sink = prepared.upload(ids), prepared.upload(np.zeros(4, np.uint32))
    times = {}
    for threads, unroll in VARIANTS:
        work = _reader(prepared, (threads, unroll), len(ids), (device.address, sink.address))
        times[f"{threads} threads, {unroll} loads"] = median(prepared.replays(work, count))
    best = min(times, key=lambda name: times[name])
    return times[best], best


def _reader(prepared: Prepared, shape: tuple[int, int], blocks: int, places: tuple[int, int]) -> Callable[[], None]:
    import ctypes

    threads, unroll = shape
    cubin = compile_source(SOURCE, "read_blocks.cu", _architecture(), {"THREADS": threads, "UNROLL": unroll})
    module = call("cuModuleLoadData", cubin)
    function = call("cuModuleGetFunction", module, b"read_blocks")
    layout, pool = prepared.layout, prepared.pool
    part = layout.block_size * layout.num_kv_heads * layout.head_dim * layout.element.itemsize
    chunks = -(-part // (threads * unroll * 16))
    types = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint32)
    types += (ctypes.c_void_p, ctypes.c_void_p)
    layers = []
    for layer in range(prepared.layers):
        k, v = (layout.part_view(layer, name, pool.num_blocks) for name in ("k", "v"))
        layers.append((pool.base + k.offset, pool.base + v.offset, k.strides[0], part, chunks, *places))
    grid = blocks * chunks * 2

    def read() -> None:
        for values in layers:
            call("cuLaunchKernel", function, grid, 1, 1, threads, 1, 1, 0, pool.stream.handle, (values, types), 0)  # type: ignore[attr-defined]

    return read


def _architecture() -> str:
    from cuda.bindings import driver

    kinds = driver.CUdevice_attribute
    names = ("MAJOR", "MINOR")
    numbers = [getattr(kinds, f"CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_{name}") for name in names]
    return "sm_" + "".join(str(call("cuDeviceGetAttribute", number, 0)) for number in numbers)
