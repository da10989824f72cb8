"""Figure 9 of "Mooncake" (FAST 2025): the hit rate of a prefix cache by its capacity, over the published traces.

The rate is of full blocks, of 512 tokens: min(leading blocks found, full blocks) / full blocks, summed over requests in
file order from an empty cache. The capacity counts tokens; a block of a trace holds less than 512 in the mean.
The paper's cache evicts the head of a prompt before its tail, ours the tail first: ours finds a little more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pagedkv.errors import InvalidArgumentError
from pagedkv.simulate.cache_replay import CacheReplay
from pagedkv.simulate.workload import Workload

TOLERANCE = 0.01  # of the blocks: how far a rate may be from the printed one

_CAPACITIES = tuple(int(million * 1e6) for million in (0.01, 0.1, 1, 2, 4, 5, 8, 10, 50, 100, 1000))
_CONVERSATION = (0.0449, 0.0731, 0.0866, 0.1202, 0.2149, 0.2471, 0.2997, 0.3263, 0.3983, 0.4006, 0.4006)
_SYNTHETIC = (0.0003, 0.0117, 0.1461, 0.2345, 0.3805, 0.4352, 0.5447, 0.5886, 0.6582, 0.6582)


@dataclass(frozen=True, slots=True)
class Curve:
    """A curve of the figure, and what its published trace is known by. printed: (capacity in tokens, rate), read off
    the plot."""

    name: str
    requests: int
    blocks: int
    printed: tuple[tuple[int, float], ...]


CURVES = (
    Curve("Conversation", 12_031, 288_500, tuple(zip(_CAPACITIES, _CONVERSATION, strict=True))),
    # No point at 100 million.
    Curve("Synthetic", 3993, 121_877, tuple(zip((*_CAPACITIES[:-2], _CAPACITIES[-1]), _SYNTHETIC, strict=True))),
)


@dataclass(frozen=True, slots=True)
class Point:
    """One capacity. ours, printed: hit rates of full blocks, from 0 to 1."""

    capacity_tokens: int
    capacity_blocks: int
    full_blocks: int
    full_block_hits: int
    evictions: int
    printed: float

    @property
    def ours(self) -> float:
        """The hit rate."""
        return self.full_block_hits / self.full_blocks

    @property
    def difference(self) -> float:
        """ours - printed."""
        return self.ours - self.printed


@dataclass(frozen=True, slots=True)
class Figure9Result:
    """The points, smallest capacity first. failures: sentences, empty if all is right."""

    points: tuple[Point, ...]
    failures: tuple[str, ...]
    interrupted: bool


class Figure9:
    """One curve over the prompts of its trace. Run once.

    Errors: InvalidArgumentError for a trace that is neither of the paper's two.
    """

    def __init__(self, workload: Workload) -> None:
        self.curve = _curve_of(workload)
        self.tokens_a_block = int(workload.prompt_tokens.sum()) / self.curve.blocks
        self._workload = workload
        self._on_progress: Callable[[int], None] | None = None
        self._running: CacheReplay | None = None
        self._stopping = False
        self._ended = 0

    @property
    def total(self) -> int:
        """Requests of all capacities."""
        return len(self.curve.printed) * len(self._workload)

    def stop(self) -> None:
        """End after the current request, without the capacities to come (safe in a signal handler)."""
        self._stopping = True
        if self._running is not None:
            self._running.stop()

    def run(self, *, on_progress: Callable[[int], None] | None = None) -> Figure9Result:
        """Replay the trace at every printed capacity and compare the rates.

        on_progress(ended requests of all capacities) is called every 4096 requests.
        """
        self._on_progress = on_progress
        points: list[Point] = []
        failures: list[str] = []
        for tokens, printed in self.curve.printed:
            blocks = round(tokens / self.tokens_a_block)
            replay = self._running = CacheReplay(self._workload, blocks, on_progress=self._progress)
            if self._stopping:
                replay.stop()
            result = replay.run()
            if result.interrupted:
                return Figure9Result(tuple(points), tuple(failures), True)
            self._ended += len(self._workload)
            failures += result.failures
            full, hits, evictions = (
                _whole(result.figures[name]) for name in ("full_blocks", "full_block_hits", "evictions")
            )
            points.append(Point(tokens, blocks, full, hits, evictions, printed))
        if far := sum(abs(point.difference) > TOLERANCE for point in points):
            failures.append(
                f"{far} of {len(points)} hit rates are more than {100 * TOLERANCE:g} point from the paper's"
            )
        return Figure9Result(tuple(points), tuple(failures), False)

    def _progress(self, ended: int) -> None:
        if self._on_progress is not None:
            self._on_progress(self._ended + ended)


def _whole(figure: object) -> int:
    assert isinstance(figure, int)
    return figure


def _curve_of(workload: Workload) -> Curve:
    blocks = None if workload.identities is None else len(workload.identities.ids)
    for curve in CURVES:
        if (len(workload), blocks) == (curve.requests, curve.blocks):
            return curve
    found = "nothing is known of its prompts" if blocks is None else f"{blocks:,} blocks"
    wanted = " or ".join(f"{curve.name} ({curve.requests:,} requests, {curve.blocks:,} blocks)" for curve in CURVES)
    raise InvalidArgumentError(
        f"the trace has {len(workload):,} requests, {found}; the figure's curves are of {wanted}: give one of these"
    )
