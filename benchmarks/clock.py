"""Time of a piece of work: CPU time of this thread beside wall time, with the collector settled.

CPU time is the figure to compare on a shared machine, minimum with minimum: other processes and a changing
clock speed only ever add to it.
"""

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sample:
    """Nanoseconds a call."""

    wall_ns: float
    cpu_ns: float


Case = Callable[[], Sample]  # takes one sample


class Stopwatch:
    """Two clocks read together. The thread clock is a system call of some 0.2 us: time many calls at once."""

    __slots__ = ("_cpu", "_wall")

    def __init__(self) -> None:
        self._wall = time.perf_counter_ns()
        self._cpu = time.thread_time_ns()

    def stop(self, calls: int = 1) -> Sample:
        cpu, wall = time.thread_time_ns(), time.perf_counter_ns()
        return Sample((wall - self._wall) / calls, (cpu - self._cpu) / calls)


@contextmanager
def settled_gc() -> Iterator[None]:
    """Collect and freeze, as an engine does after start-up: collections stay on but find little to walk."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def interleave(cases: dict[str, Case], rounds: int) -> dict[str, list[Sample]]:
    """Samples of every case, one of each a round: a slow spell of the machine falls on all of them alike."""
    samples: dict[str, list[Sample]] = {name: [] for name in cases}
    with settled_gc():
        for _ in range(rounds):
            for name, measure in cases.items():
                samples[name].append(measure())
    return samples


def calibrate(rounds: int = 25) -> float:
    """Least CPU microseconds of an empty 100,000-iteration loop: how fast this processor runs now."""
    best = float("inf")
    for _ in range(rounds):
        watch = Stopwatch()
        for _ in range(100_000):
            pass
        best = min(best, watch.stop().cpu_ns / 1e3)
    return best
