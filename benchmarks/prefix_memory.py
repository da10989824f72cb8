"""A million cached blocks: time to build such a pool, and all its memory a block, tokens included.

Each figure is a fresh process: `python -m benchmarks.prefix_memory BLOCKS RUN` prints one as JSON.
"""

import gc
import json
import subprocess
import sys

import numpy as np

from benchmarks.batch import BLOCK_SIZE
from benchmarks.clock import Sample, Stopwatch
from benchmarks.machine import ROOT
from benchmarks.report import Benchmark, Row, Settings, Target, timed
from benchmarks.resident_memory import resident_bytes
from pagedkv import KVCacheManager

BUILD_TARGET_US = 100_000.0
TARGET_BYTES = {8: 140.0, 1: 224.0}  # by blocks of a prompt that no other prompt shares
AT_ONCE = 64  # prompts that live at a time


def fill(blocks: int, run: int) -> dict[str, float | None]:
    """Build a pool here and cache every block, in prompts of `run` blocks of their own; ns, bytes a block."""
    KVCacheManager(1_000, 16, prefix_caching=True).get_stats()
    tokens = np.arange(run * BLOCK_SIZE, dtype=np.int32)
    gc.collect()
    start = resident_bytes()
    watch = Stopwatch()
    manager = KVCacheManager(blocks, BLOCK_SIZE, prefix_caching=True)
    sample = watch.stop()
    ids = np.arange(AT_ONCE, dtype=np.int64)
    counts = np.full(AT_ONCE, run * BLOCK_SIZE, dtype=np.int32)
    for first in range(0, blocks // run, AT_ONCE):
        some = ids[: min(AT_ONCE, blocks // run - first)]
        for seq_id in some.tolist():
            tokens[0] = first + seq_id
            manager.admit(seq_id, tokens)
        manager.append(some, counts[: some.size])
        manager.commit(some, counts[: some.size])
        manager.free(some)
    assert manager.get_stats().cached_blocks == blocks // run * run
    end = resident_bytes()
    known = start is not None and end is not None
    used = (end - start) / blocks if known else None  # type: ignore[operator]
    return {"wall_ns": sample.wall_ns, "cpu_ns": sample.cpu_ns, "bytes": used}


def run(settings: Settings) -> list[Row]:
    blocks = settings.pick(1_000_000, 8_000)
    rows, builds = [], []
    for run_blocks, limit in TARGET_BYTES.items():
        found = [in_fresh_process(blocks, run_blocks) for _ in range(settings.pick(3, 1))]
        builds += [Sample(f["wall_ns"], f["cpu_ns"]) for f in found]
        largest = max((f["bytes"] for f in found if f["bytes"] is not None), default=None)
        if largest is not None:
            case = f"{blocks:,} cached blocks, runs of {run_blocks}: all memory, tokens included"
            rows.append(Row(case, largest, "B/block", Target(limit), note=f"largest of {len(found)} processes"))
    return [timed(f"{blocks:,} blocks built", builds, target_us=BUILD_TARGET_US), *rows]


def in_fresh_process(blocks: int, run_blocks: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.prefix_memory", str(blocks), str(run_blocks)]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found: dict[str, float] = json.loads(output)
    return found


BENCHMARK = Benchmark("prefix-memory", "build time and memory of a million cached blocks", run, in_process=False)

if __name__ == "__main__":
    print(json.dumps(fill(int(sys.argv[1]), int(sys.argv[2]))))
