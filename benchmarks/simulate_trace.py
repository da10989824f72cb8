"""`pagedkv simulate` as whole processes: Azure's conversations over its length, Mooncake's over the cache alone."""

import json
import os
import shutil
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.report import Benchmark, Row, Settings, Target

TRACE = Path("azure-llm-2023") / "AzureLLMInferenceTrace_conv.csv"
TARGET_SECONDS = 4.0
MOONCAKE = Path("mooncake-fast25") / "conversation_trace.jsonl.gz"
MOONCAKE_TARGET_SECONDS = 2.0
LIMITS: tuple[int | None, ...] = (2_500, 5_000, 10_000, None)  # None: all 19,366 requests


@dataclass(frozen=True, slots=True)
class ProcessRun:
    wall_s: float
    cpu_s: float
    steps: int


def run(settings: Settings) -> list[Row]:
    """Nothing without a directory of traces: they are not part of the repository."""
    directory = settings.trace_directory
    if directory is None or not (directory / TRACE).is_file():
        return []
    repeats = settings.pick(5, 1)
    rows, costs = [], []
    for limit in settings.pick(LIMITS, (20,)):
        runs = [simulate(directory / TRACE, limit) for _ in range(repeats)]
        wall, cpu = min(r.wall_s for r in runs), min(r.cpu_s for r in runs)
        target = Target(TARGET_SECONDS) if limit is None else None
        steps = runs[0].steps
        note = f"CPU {cpu:.2f} s; {steps:,} steps, {wall / steps * 1e6:.1f} us a step; {repeats} runs"
        case = "whole trace" if limit is None else f"first {limit:,} requests"
        rows.append(Row(f"{case}, wall of the process", wall, "s", target, note=note))
        costs.append((steps, cpu))
    return [*rows, *linearity(costs), *mooncake(directory / MOONCAKE, repeats)]


def mooncake(trace: Path, repeats: int) -> list[Row]:
    """12,031 requests, 288,500 ids, a cache of 50,000 blocks."""
    if not trace.is_file():
        return []
    options = ["--prefix-caching", "--cache-only", "--blocks", "50000"]
    runs = [in_fresh_process(trace, options, "requests") for _ in range(repeats)]
    wall, cpu = min(r.wall_s for r in runs), min(r.cpu_s for r in runs)
    note = f"CPU {cpu:.2f} s; {runs[0].steps:,} requests; {repeats} runs"
    case = "Mooncake's conversation trace over 50,000 cached blocks, wall of the process"
    return [Row(case, wall, "s", Target(MOONCAKE_TARGET_SECONDS), note=note)]


def linearity(costs: Sequence[tuple[int, float]]) -> list[Row]:
    """CPU of the second half of the longest run against its first half, a step: start-up cancels out."""
    if len(costs) < 3:
        return []
    (steps0, cpu0), (steps1, cpu1), (steps2, cpu2) = costs[0], costs[-2], costs[-1]
    early, late = (cpu1 - cpu0) / (steps1 - steps0), (cpu2 - cpu1) / (steps2 - steps1)
    note = f"{late * 1e6:.1f} against {early * 1e6:.1f} us a step"
    return [Row("a late step against an early one", late / early, "x", Target(1.5), note=note)]


def simulate(trace: Path, limit: int | None) -> ProcessRun:
    """A timed replay of the first `limit` requests."""
    options = ["--step-ms", "50", "--blocks", "4096", "--no-verify"]
    return in_fresh_process(trace, options + ([] if limit is None else ["--limit", str(limit)]), "steps")


def in_fresh_process(trace: Path, options: list[str], counted: str) -> ProcessRun:
    """One run in a process of its own; its CPU time is the children's, so runs are not to overlap."""
    with tempfile.TemporaryDirectory() as scratch:
        figures = Path(scratch) / "figures.json"
        command = [console_script(), "simulate", "--trace", str(trace), *options, "--quiet", "--json", str(figures)]
        before, start = os.times(), time.perf_counter()
        subprocess.run(command, cwd=scratch, capture_output=True, text=True, check=True)
        wall, after = time.perf_counter() - start, os.times()
        steps = json.loads(figures.read_text(encoding="utf-8"))["figures"][counted]
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return ProcessRun(wall, cpu, steps)


def console_script() -> str:
    """The `pagedkv` that was installed with this interpreter, not whichever comes first on the path."""
    found = shutil.which("pagedkv", path=sysconfig.get_path("scripts"))
    if found is None:
        raise FileNotFoundError("the command pagedkv is not installed beside this interpreter; pip install .")
    return found


BENCHMARK = Benchmark("simulate-trace", "simulate whole traces", run, in_process=False)
