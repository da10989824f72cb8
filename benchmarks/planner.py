"""The planner's jobs as whole processes: Figure 2, an hour of traffic with its report's data, a million requests."""

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.report import Benchmark, Row, Settings, Target
from benchmarks.simulate_trace import TRACE, console_script

FIGURE2 = Path("sharegpt-opt-sosp23") / "fig2_requests_rate4_900s_seed0.csv"
FIGURE2_SECONDS = 15.0
TRACE_SECONDS = 6.0
MILLION_SECONDS = 60.0
GIB = 2**30
LOADS: tuple[int, ...] = (250_000, 500_000, 1_000_000)


@dataclass(frozen=True, slots=True)
class Process:
    """A command that has ended; peak_bytes: its resident memory at the most."""

    wall_s: float
    cpu_s: float
    peak_bytes: int
    document: dict[str, Any]


def run(settings: Settings) -> list[Row]:
    """Rows of traces only where there is a directory of them."""
    return [*with_traces(settings), *drawn(settings)]


def with_traces(settings: Settings) -> list[Row]:
    directory = settings.trace_directory
    if directory is None or settings.tiny or not (directory / FIGURE2).is_file():
        return []
    figure = least(("reproduce", "sosp23-figure2", "--trace", str(directory / FIGURE2)), 3)
    steps = sum(system["figures"]["steps"] for system in figure.document["systems"])
    trace = least(("simulate", "--trace", str(directory / TRACE), "--step-ms", "50", "--blocks", "4096"), 3)
    note = f"CPU {trace.cpu_s:.2f} s; {trace.document['figures']['steps']:,} steps; 3 runs"
    return [
        Row(
            "Figure 2, four systems, wall of the process",
            figure.wall_s,
            "s",
            Target(FIGURE2_SECONDS),
            note=f"CPU {figure.cpu_s:.2f} s; {steps:,} steps; 3 runs",
        ),
        Row("Azure's conversations with a report's data, wall", trace.wall_s, "s", Target(TRACE_SECONDS), note=note),
    ]


def drawn(settings: Settings) -> list[Row]:
    """Drawn loads of 200 output tokens in the mean, 256 running at once."""
    loads = settings.pick(LOADS, (50,))
    runs = [least(command(requests), 1) for requests in loads]
    steps = [one.document["figures"]["steps"] for one in runs]
    largest = runs[-1]
    note = f"CPU {largest.cpu_s:.2f} s; {steps[-1]:,} steps, {largest.cpu_s / steps[-1] * 1e6:.1f} us a step; 1 run"
    case = f"a drawn load of {loads[-1]:,} requests"
    rows = [
        Row(f"{case}, wall of the process", largest.wall_s, "s", Target(MILLION_SECONDS), note=note),
        Row(f"{case}, peak of resident memory", largest.peak_bytes / GIB, "GiB", Target(1.0)),
    ]
    if len(runs) == 3:
        early, late = ((runs[i + 1].cpu_s - runs[i].cpu_s) / (steps[i + 1] - steps[i]) for i in (0, 1))
        told = f"{late * 1e6:.1f} against {early * 1e6:.1f} us a step"
        rows.append(Row("a step of the larger half against the smaller", late / early, "x", Target(1.5), note=told))
    return rows


def command(requests: int) -> tuple[str, ...]:
    lengths = ("--prompt-lengths", "lognormal:512:1", "--output-lengths", "lognormal:200:1")
    caps = ("--max-seqs", "256", "--blocks", "20000", "--device", "null")
    return ("simulate", "--requests", str(requests), *lengths, *caps)


def least(words: Sequence[str], repeats: int) -> Process:
    """The quickest of some runs."""
    return min((in_process_of_its_own(words) for _ in range(repeats)), key=lambda one: one.wall_s)


def in_process_of_its_own(words: Sequence[str]) -> Process:
    with tempfile.TemporaryDirectory() as scratch:
        figures = Path(scratch) / "figures.json"
        start = time.perf_counter()
        child = subprocess.Popen([console_script(), *words, "--quiet", "--json", str(figures)], cwd=scratch)
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            raise subprocess.CalledProcessError(child.returncode, list(words))
        document = json.loads(figures.read_text(encoding="utf-8"))
    return Process(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, document)


BENCHMARK = Benchmark("planner", "the planner's jobs", run, in_process=False)
