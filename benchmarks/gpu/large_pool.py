"""A pool of 100 GiB, until it is ready: the first of a process, as an engine opens it, and one right after another was
closed, when the driver has just taken that memory back and must clear it.
"""

from statistics import median

from benchmarks.clock import Stopwatch
from benchmarks.gpu.copy_rate import GIB, MIB
from benchmarks.report import Benchmark, Row, Settings, Target
from pagedkv import DevicePool, OpaqueLayout

TARGET_MS = 50.0


def run(settings: Settings) -> list[Row]:
    size = settings.pick(100 * GIB, GIB)
    layout = OpaqueLayout(2 * MIB // 16, 16)
    with DevicePool(layout, 8, device="cuda:0") as first:  # the context and the kernels are there
        memory = first.backend.memory_info()
    if memory is None or memory.free < size:
        return []
    opened, closed = [], []
    for _ in range(settings.pick(7, 2)):
        watch = Stopwatch()
        pool = DevicePool(layout, layout.blocks_in(size), device="cuda:0")
        opened.append(watch.stop().wall_ns / 1e6)
        last = pool.num_blocks - 1
        pool.fill_blocks([0, last], [1, 2])
        if pool.verify_blocks([0, last], [1, 2]):
            raise RuntimeError("the pool does not hold what was written")
        watch = Stopwatch()
        pool.close()
        closed.append(watch.stop().wall_ns / 1e6)
    again = opened[1:]
    note = f"median of {len(again)}; {min(again):.2f} .. {max(again):.2f}"
    return [
        Row(f"pool of {size / GIB:g} GiB ready, the first of a process", opened[0], "ms", Target(TARGET_MS)),
        Row(f"pool of {size / GIB:g} GiB ready, right after one was closed", median(again), "ms", note=note),
        Row(f"pool of {size / GIB:g} GiB closed", median(closed), "ms"),
    ]


BENCHMARK = Benchmark("large-pool", "a pool of 100 GiB, ready", run, in_process=False)
