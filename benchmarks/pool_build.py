"""A pool of a million blocks: time to build it, and the memory it takes built and after every block was used.

Each sample is a fresh process, so that no allocator hands back memory that an earlier pool had touched:
`python -m benchmarks.pool_build BLOCKS` prints one as JSON.
"""

import gc
import json
import subprocess
import sys

from benchmarks.clock import Sample, Stopwatch
from benchmarks.machine import ROOT
from benchmarks.report import Benchmark, Row, Settings, Target, timed
from benchmarks.resident_memory import resident_bytes
from pagedkv import KVCacheManager

TARGET_US = 50_000.0
TARGET_BYTES = 64.0
MEMORY = (("built_bytes", "memory once built"), ("used_bytes", "memory after every block was used"))


def build(blocks: int) -> dict[str, float | None]:
    """Build a pool in this process, use and give back every block: times in ns, memory in bytes a block."""
    KVCacheManager(1_000, 16).get_stats()  # first-use costs of the module are not the pool's
    gc.collect()
    start = resident_bytes()
    watch = Stopwatch()
    manager = KVCacheManager(blocks, 16)
    sample = watch.stop()
    built = resident_bytes()
    use_every_block(manager, blocks)
    used = resident_bytes()
    known = start is not None and built is not None and used is not None
    return {
        "wall_ns": sample.wall_ns,
        "cpu_ns": sample.cpu_ns,
        "built_bytes": (built - start) / blocks if known else None,  # type: ignore[operator]
        "used_bytes": (used - start) / blocks if known else None,  # type: ignore[operator]
    }


def use_every_block(manager: KVCacheManager, blocks: int) -> None:
    """Every block through every state: in use, cached, evicted, held by a sequence, pending, clean again."""
    allocator = manager.allocator
    ids = allocator.allocate(blocks)
    allocator.publish(ids)
    allocator.free(ids)
    allocator.free(allocator.allocate(blocks))
    held = list(range(blocks // 1_000))  # sequences of 1,000 blocks: page tables stay small beside the pool
    for seq_id in held:
        manager.admit(seq_id, (), reserve=16_000)
    plan = manager.append(held, [1] * len(held))
    manager.free(held, after=plan.step)
    manager.retire(plan.step)


def run(settings: Settings) -> list[Row]:
    blocks = settings.pick(1_000_000, 10_000)
    processes = settings.pick(9, 1)
    found = [in_fresh_process(blocks) for _ in range(processes)]
    samples = [Sample(f["wall_ns"], f["cpu_ns"]) for f in found]
    rows = [timed(f"{blocks:,} blocks built", samples, target_us=TARGET_US)]
    for key, case in MEMORY:
        largest = max((f[key] for f in found if f[key] is not None), default=None)
        if largest is not None:
            note = f"largest of {processes} processes"
            target = Target(TARGET_BYTES)
            rows.append(Row(f"{blocks:,} blocks, {case}", largest, "B/block", target, note=note))
    return rows


def in_fresh_process(blocks: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.pool_build", str(blocks)]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found: dict[str, float] = json.loads(output)
    return found


BENCHMARK = Benchmark("pool-build", "build time and memory of a million blocks", run, in_process=False)

if __name__ == "__main__":
    print(json.dumps(build(int(sys.argv[1]))))
