"""Watches a run and keeps its history: series over time, the block map, the requests' running spans."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from pagedkv.simulate.history.block_map import BlockMap
from pagedkv.simulate.history.sequences import SequenceSpans
from pagedkv.simulate.history.step_series import StepSeries
from pagedkv.simulate.observer import Observer

if TYPE_CHECKING:
    from pagedkv.manager import KVCacheManager
    from pagedkv.simulate.arrivals import Arrivals
    from pagedkv.simulate.counters import Rejection
    from pagedkv.simulate.history.series import Integers
    from pagedkv.simulate.scheduler import Scheduler

History: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Limits:
    """What is kept at most, however long the run is."""

    buckets: int = 1000
    blocks: int = 256
    moments: int = 400
    requests: int = 400
    segments: int = 10_000


LIMITS = Limits()


class HistoryRecorder(Observer):
    """An observer of one run over `manager`, whose measurements go to `add_rows`, too.

    requests: how many there will be (None: drawn without end). steps: how many there will be at least.
    clock: called once a counted step, when it is measured; returns the modeled seconds at the end of that step (None:
    steps have no duration). Memory: about 2 MB. Reads the manager, modifies only itself; no stream.
    """

    def __init__(
        self,
        manager: KVCacheManager,
        arrivals: Arrivals,
        *,
        requests: int | None,
        steps: int = 0,
        group_size: int = 1,
        clock: Callable[[], float] | None = None,
        limits: Limits = LIMITS,
    ) -> None:
        self._manager = manager
        self._arrivals = arrivals
        self._group_size = group_size
        self._clock = clock
        self._caching = manager.prefix_caching
        self._series = StepSeries(caching=self._caching, limit=limits.buckets)
        self._map = BlockMap(manager, group_size, blocks=limits.blocks, moments=limits.moments, steps=steps)
        self._spans = SequenceSpans(requests, kept=limits.requests, segments=limits.segments)
        self._counted = 0
        self._step = -1  # of the last counted step

    # Most requests are no sampled ones: the four below find that out without another call.

    def arrived(self, request: int, step: int) -> None:
        """Note when it was queued."""
        if request % self._spans.stride == 0:
            self._spans.arrived(request, step)

    def rejected(self, rejection: Rejection) -> None:
        """Count it in the next counted step."""
        self._series.rejected[self._counted] += 1

    def admitted(self, request: int, step: int) -> None:
        """A running span begins."""
        if request % self._spans.stride == 0:
            self._spans.admitted(request, step)

    def preempted(self, request: int, step: int) -> None:
        """Its span ended with the step before: in this one it does not run."""
        self._series.preemptions[self._counted] += 1
        if request % self._spans.stride == 0:
            self._spans.ended(request, step - 1, "preempted")

    def ending(self, seq_ids: Sequence[int]) -> None:
        """Their spans end with the step that was counted last."""
        size = self._group_size
        self._series.completed[self._counted - 1] += len(seq_ids) // size
        for seq_id in seq_ids[::size]:
            if seq_id // size % self._spans.stride == 0:
                self._spans.ended(seq_id // size, self._step, "completed")

    def measured(self, scheduler: Scheduler) -> None:
        """Record what the measurements do not hold, and the blocks if the step is a sampled one."""
        step, counted = scheduler.step, self._counted
        if step != self._step + 1:
            self._series.jumped(counted, step - self._step - 1)
        if self._caching:
            self._series.found(scheduler.stats)
        if self._clock is not None:
            self._series.clock(self._clock())
        if counted == self._map.next:
            ids, ever_used = scheduler.running.ids, self._ever_used(scheduler)
            self._map.add(counted, step, ids, scheduler.stats, ever_used=ever_used)
        self._counted = counted + 1
        self._step = step

    def add_rows(self, rows: Integers) -> None:
        """Take the measurements of the next counted steps, for each of which `measured` was called."""
        self._series.measured(rows)

    def result(self) -> History:
        """Return the history as plain data. All measurements were added; may be called once."""
        return {
            "series": self._series.result(timed=self._clock is not None),
            "block_map": self._map.result(),
            "sequences": self._spans.result(self._arrivals.prompt, self._arrivals.output, self._step),
        }

    def _ever_used(self, scheduler: Scheduler) -> int:
        """Return a number that no block used so far reaches.

        A pool hands out a new block, the lowest one, only when every used one is in use or cached. So without a cache
        the blocks used are those below the peak; with one, there are no more than were handed out.
        """
        if self._caching:
            return min(self._manager.num_blocks, scheduler.counters.block_allocs)
        return scheduler.stats.peak_allocated_blocks
