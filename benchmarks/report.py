"""What a benchmark hands back: rows of figures, each with its target if it has one."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

from benchmarks.clock import Sample

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Target:
    """The bound a figure is held to; `at_least` turns it from an upper into a lower bound."""

    limit: float
    at_least: bool = False

    def met(self, value: float) -> bool:
        return value >= self.limit if self.at_least else value <= self.limit

    def __str__(self) -> str:
        return f"{'>=' if self.at_least else '<='} {self.limit:g}"


@dataclass(frozen=True, slots=True)
class Spread:
    """Minimum and median of thread CPU time and of wall time over all samples, in microseconds a call."""

    cpu_min: float
    cpu_median: float
    wall_min: float
    wall_median: float
    samples: int

    @classmethod
    def of(cls, samples: Sequence[Sample]) -> "Spread":
        cpu = [sample.cpu_ns / 1e3 for sample in samples]
        wall = [sample.wall_ns / 1e3 for sample in samples]
        return cls(min(cpu), median(cpu), min(wall), median(wall), len(samples))


@dataclass(frozen=True, slots=True)
class Row:
    """One figure: `value` in `unit` is what the target speaks of, `spread` the samples behind it."""

    case: str
    value: float
    unit: str
    target: Target | None = None
    spread: Spread | None = None
    note: str = ""

    @property
    def verdict(self) -> str:
        if self.target is None:
            return ""
        return "met" if self.target.met(self.value) else "MISSED"

    def as_dict(self) -> dict[str, Any]:
        fields = asdict(self)
        fields["met"] = None if self.target is None else self.target.met(self.value)
        return fields


def timed(case: str, samples: Sequence[Sample], *, target_us: float | None = None, note: str = "") -> Row:
    """A row of the minimum: what a shared machine disturbs least.

    The larger of the two clocks' minima: the wall clock cannot be too low, while the thread clock of a
    virtual machine now and then lags some microseconds.
    """
    spread = Spread.of(samples)
    target = None if target_us is None else Target(target_us)
    return Row(case, max(spread.cpu_min, spread.wall_min), "us", target, spread, note)


@dataclass(frozen=True, slots=True)
class Settings:
    """How much to measure and against what. Tiny sizes run in a moment; their timings mean nothing."""

    tiny: bool = False
    vllm_results: Path | None = None
    trace_directory: Path | None = None
    sglang_results: Path | None = None

    def pick(self, full: T, tiny: T) -> T:
        return tiny if self.tiny else full


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A named measurement; `in_process` ones need nothing but the installed package."""

    name: str
    summary: str
    run: Callable[[Settings], Iterable[Row]]
    in_process: bool = True
