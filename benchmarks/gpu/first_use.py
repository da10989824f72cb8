"""First use in a fresh process, with an empty and with a filled kernel cache; imports and the context are apart."""

import json
import os
import subprocess
import sys
import tempfile
from statistics import median

from benchmarks.report import Benchmark, Row, Settings, Target

COLD_S, WARM_S = 2.0, 0.3

PROGRAM = """
import json, time
marks = [time.perf_counter()]
def mark():
    marks.append(time.perf_counter())
import numpy as np
import cuda.core
mark()
from cuda.bindings import driver
driver.cuInit(0)
driver.cuCtxSetCurrent(driver.cuDevicePrimaryCtxRetain(driver.cuDeviceGet(0)[1])[1])
mark()
from pagedkv import DevicePool, KVCacheManager, OpaqueLayout
manager = KVCacheManager(512, 16)
pool = DevicePool(OpaqueLayout(8192, 16), 512, device="cuda:0")
for seq_id in range(8):
    manager.admit(seq_id, (), reserve=40)
manager.allocator.increment_ref(manager.get_page_table(0).entries[:1])
ids = np.arange(8)
plan = manager.append(ids, np.full(8, 33))
assert len(plan.copies) == 1 and len(plan.updates) >= 8
pool.apply(plan)
pool.stream.synchronize()
mark()
positions = np.tile(np.arange(33), 8)
pool.fill_tokens(np.repeat(ids, 33), positions, plan.slots)
assert pool.verify_tokens(np.repeat(ids, 33), positions, plan.slots) == 0
pool.fill_blocks([500], 1)
assert pool.verify_blocks([500], 1) == 0
mark()
print(json.dumps([after - before for before, after in zip(marks, marks[1:])]))
"""


def run(settings: Settings) -> list[Row]:
    runs = settings.pick(5, 1)
    in_process(None)  # writes the bytecode caches
    cold, warm = [], []
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as cache:
            cold.append(in_process(cache))
            warm.append(in_process(cache))
    return [*rows("cold", cold, COLD_S), *rows("warm", warm, WARM_S)]


def rows(how: str, measured: list[list[float]], limit: float) -> list[Row]:
    imported, context, used, verified = (median(times) for times in zip(*measured, strict=True))
    target = Target(limit)
    alone = sorted(times[2] for times in measured)
    note = f"beyond numpy and cuda.core, {imported:.3f} s; {alone[0]:.3f} .. {alone[-1]:.3f}, {len(alone)} runs"
    return [
        Row(f"{how} kernel cache: pool and first apply", used, "s", target, note=note),
        Row(f"{how} kernel cache: with the CUDA context", context + used, "s", target, note=f"context {context:.3f} s"),
        Row(f"{how} kernel cache: fill and verify besides", verified, "s"),
    ]


def in_process(cache: str | None) -> list[float]:
    """Seconds of: importing cuda.core, making the context, pool and first apply, other kernels."""
    with tempfile.TemporaryDirectory() as own:
        environment = {**os.environ, "PAGEDKV_CACHE_DIR": cache or own}
        command = [sys.executable, "-c", PROGRAM]
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    times: list[float] = json.loads(ended.stdout)
    return times


BENCHMARK = Benchmark("first-use", "first use in a fresh process", run, in_process=False)
