"""Figure 15 of the PagedAttention paper (SOSP 2023), its ShareGPT part: blocks saved by samples that share a prompt.

Two ways to take the mean, as the paper names none. Pooled: the first 20,000 requests all at once, in a pool that never
runs out; blocks are summed over all steps. Replay: the first 2,000 through the pool of Figure 2, each admitted when
all that run still fit at their end; the ratio's mean over the steps with a queue.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pagedkv.errors import InvalidArgumentError
from pagedkv.layout import OpaqueLayout
from pagedkv.simulate.groups import Groups
from pagedkv.simulate.simulator import Load, PoolSpec, Simulation, SimulationResult
from pagedkv.simulate.workload import Workload

REQUESTS = 79_725  # of the artifact's list, below MODEL_LENGTH
MODEL_LENGTH = 2048  # OPT-13B's; prompt + output of a request is less
SAMPLES = (2, 4, 6)
PRINTED = (0.162, 0.305)  # the range that the text gives for parallel sampling of ShareGPT
TOLERANCE = 0.005  # of the blocks: how far outside of the printed range a saving may be
END_TOLERANCE = 0.03  # of the blocks: how far the least and the greatest saving may be from the range's ends


@dataclass(frozen=True, slots=True)
class Method:
    """How a saving is taken: the first `groups` requests, over a pool."""

    name: str
    groups: int
    pool: PoolSpec
    admission: str


# 800 KiB a token, as in Figure 2; the first pool holds the peak of 20,000 groups of 6, 1.2 million blocks.
METHODS = (
    Method("pooled", 20_000, PoolSpec(OpaqueLayout(819_200, 16), 2**21), "grow"),
    Method("replay", 2000, PoolSpec(OpaqueLayout(819_200, 16), 983), "final"),
)


@dataclass(frozen=True, slots=True)
class Saving:
    """One run. saving: 1 - physical / logical blocks, from 0 to 1; None: no step counts for it."""

    method: str
    samples: int
    requests: int
    steps: int
    logical_blocks: int
    physical_blocks: int
    saving: float | None

    @property
    def difference(self) -> float | None:
        """How far the saving is below (negative) or above the printed range; 0 within it."""
        if self.saving is None:
            return None
        low, high = PRINTED
        return min(0.0, self.saving - low) or max(0.0, self.saving - high)


@dataclass(frozen=True, slots=True)
class Figure15Result:
    """The savings, method by method. failures: sentences, empty if all is right."""

    savings: tuple[Saving, ...]
    failures: tuple[str, ...]
    interrupted: bool


class Figure15:
    """All samples by both methods, over the requests that fit the model. Run once.

    Errors: InvalidArgumentError if none fits.
    """

    def __init__(self, workload: Workload) -> None:
        fits = workload.prompt_tokens + workload.output_tokens < MODEL_LENGTH
        self.requests = int(fits.sum())
        if not self.requests:
            raise InvalidArgumentError(
                f"no request of the trace has less than {MODEL_LENGTH} tokens, the model's length; give another trace"
            )
        self._workload = Workload(workload.prompt_tokens[fits], workload.output_tokens[fits])
        self._on_progress: Callable[[int], None] | None = None
        self._running: Simulation | None = None
        self._stopping = False
        self._ended = 0

    @property
    def total(self) -> int:
        """Requests of all runs."""
        return len(SAMPLES) * sum(min(method.groups, self.requests) for method in METHODS)

    def stop(self) -> None:
        """End after the current step, without the runs to come (safe in a signal handler)."""
        self._stopping = True
        if self._running is not None:
            self._running.stop()

    def run(self, *, on_progress: Callable[[int], None] | None = None) -> Figure15Result:
        """Run all and compare the savings with what is printed.

        on_progress(ended requests of all runs) is called every 4096 steps.
        """
        self._on_progress = on_progress
        savings, failures = [], []
        for method, samples in ((method, samples) for method in METHODS for samples in SAMPLES):
            if self._stopping:
                break
            result = self._run(method, samples)
            if not result.interrupted:
                savings.append(_saving(method, samples, result))
            failures += [f"{method.name}, {samples} samples: {failure}" for failure in _broken(method, result)]
        if not self._stopping:
            failures += _far(savings)
        return Figure15Result(tuple(savings), tuple(failures), self._stopping)

    def _run(self, method: Method, samples: int) -> SimulationResult:
        workload = self._workload.first(method.groups)
        groups = Groups(samples=samples, admission=method.admission)
        simulation = self._running = Simulation(method.pool, Load(workload, groups=groups), on_progress=self._progress)
        if self._stopping:  # between the check and here
            simulation.stop()
        result = simulation.run()
        self._ended += len(workload)
        return result

    def _progress(self, ended: int) -> None:
        if self._on_progress is not None:
            self._on_progress(self._ended + ended)


def _saving(method: Method, samples: int, result: SimulationResult) -> Saving:
    figures = result.figures
    by_queue = method.name == "replay"
    saving = figures["saturated_sharing_saving" if by_queue else "pooled_sharing_saving"]
    assert saving is None or isinstance(saving, float)
    steps = result.totals.saturated.steps if by_queue else result.totals.steps
    logical = figures["sum_logical_blocks_over_steps"]
    assert isinstance(logical, int)
    requests = figures["completed"]
    assert isinstance(requests, int)
    return Saving(method.name, samples, requests, steps, logical, result.totals.allocated, saving)


def _broken(method: Method, result: SimulationResult) -> list[str]:
    failures = list(result.failures)
    if method.name == "pooled" and result.totals.saturated.steps:
        failures.append(f"the pool of {method.pool.num_blocks:,} blocks does not hold all groups at once")
    return failures


def _far(savings: Sequence[Saving]) -> list[str]:
    low, high = PRINTED
    known = [one for one in savings if one.saving is not None]
    outside = sum(abs(one.difference or 0.0) > TOLERANCE for one in known)
    failures = []
    if without := len(savings) - len(known):
        failures.append(f"{without} of {len(savings)} runs have no step with a queue")
    if outside:
        failures.append(
            f"{outside} of {len(known)} savings are more than {TOLERANCE:.1%} of the blocks outside of the paper's "
            f"{low:.1%} to {high:.1%}"
        )
    for name, found, printed in range_ends(savings):
        if abs(found - printed) > END_TOLERANCE:
            failures.append(f"{name} is {found:.1%} of the blocks, more than {END_TOLERANCE:.1%} from {printed:.1%}")
    return failures


def range_ends(savings: Sequence[Saving]) -> list[tuple[str, float, float]]:
    """Return, for each method with savings, (name, ours, printed) of the least and of the greatest. Pure."""
    low, high = PRINTED
    ends = []
    for method in METHODS:
        values = [one.saving for one in savings if one.method == method.name and one.saving is not None]
        if values:
            ends.append((f"{method.name}: the least saving", min(values), low))
            ends.append((f"{method.name}: the greatest saving", max(values), high))
    return ends
