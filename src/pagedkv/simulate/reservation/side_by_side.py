"""Contiguous systems one after another over the load of a paged run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pagedkv.errors import InvalidArgumentError
from pagedkv.simulate.arrivals import Arrivals
from pagedkv.simulate.batching import UNLIMITED
from pagedkv.simulate.measure import Recorder
from pagedkv.simulate.reservation.scheduler import ReservationScheduler
from pagedkv.simulate.reservation.shares import SystemFigures, system_figures
from pagedkv.simulate.reservation.systems import ALL_SYSTEMS, ContiguousSystem
from pagedkv.simulate.simulator import Load, PoolSpec, SimulationResult


@dataclass(frozen=True, slots=True)
class SystemResult:
    """reservation and placement are None for the paged system. interrupted: stop() ended it early."""

    reservation: str | None
    placement: str | None
    figures: SystemFigures
    interrupted: bool = False


class SideBySide:
    """Runs `systems` over the requests, caps and pool of a paged run. The watermark and its admission are paging's own.

    max_seq_len: tokens of the longest sequence. on_progress(ended requests of all systems) is called every 4096 steps.
    Errors: InvalidArgumentError for what contiguous systems are not defined for: groups and prefix caching.
    """

    def __init__(
        self,
        spec: PoolSpec,
        load: Load,
        max_seq_len: int,
        systems: Sequence[ContiguousSystem] = ALL_SYSTEMS,
        *,
        on_progress: Callable[[int], None] | None = None,
    ) -> None:
        if load.groups.size > 1 or load.prefix_caching or load.batching != UNLIMITED:
            raise InvalidArgumentError(
                "contiguous systems share nothing and store a prompt at once; compare single sequences without prefix "
                "caching and without max_batched_tokens"
            )
        self._load = load
        self._pool_tokens = spec.num_blocks * spec.layout.block_size
        self._max_seq_len = max_seq_len
        self._systems = systems
        self._on_progress = on_progress
        self._ended = 0
        self._running: ReservationScheduler | None = None
        self._stopping = False

    def stop(self) -> None:
        """End after the current step, without the systems to come (safe in a signal handler)."""
        self._stopping = True
        if self._running is not None:
            self._running.stop()

    def run(self) -> list[SystemResult]:
        """Return the results in the order of the systems; none for those that stop() kept from starting."""
        results = []
        for system in self._systems:
            if self._stopping:
                break
            results.append(self._run(system))
        return results

    def _run(self, system: ContiguousSystem) -> SystemResult:
        clock = self._load.clock()
        arrivals = self._load.arrivals(clock)
        recorder = Recorder(1, self._progress if self._on_progress else None)
        scheduler = self._running = ReservationScheduler(
            system,
            arrivals,
            recorder,
            pool_tokens=self._pool_tokens,
            max_seq_len=self._max_seq_len,
            max_seqs=self._load.cap,
            stop_after=self._load.completions,
            clock=clock,
        )
        if self._stopping:  # between the check and here
            scheduler.stop()
        scheduler.run()
        self._ended += scheduler.ended
        return SystemResult(
            system.reservation, system.placement, self._figures(scheduler, arrivals, recorder), self._stopping
        )

    def _figures(self, scheduler: ReservationScheduler, arrivals: Arrivals, recorder: Recorder) -> SystemFigures:
        return {
            "requests": len(arrivals.prompt),
            "rejected": len(scheduler.rejections),
            "completed": scheduler.counters.completed,
            "preemptions": 0,
        } | system_figures(
            recorder.totals(),
            pool_tokens=self._pool_tokens,
            block_size=1,
            expected=scheduler.expected,
            saturated=scheduler.saturated_expected,
            seconds=None if (clock := scheduler.clock) is None else clock.figures(scheduler.counters.completed_tokens),
        )

    def _progress(self) -> None:
        if self._on_progress is not None and self._running is not None:
            self._on_progress(self._ended + self._running.ended)


def paged_system(spec: PoolSpec, result: SimulationResult) -> SystemResult:
    """Return a paged run in the form of the others: it reserves nothing for later. Pure."""
    totals = result.totals
    figures: SystemFigures = {
        name: result.figures[name] for name in ("requests", "rejected", "completed", "preemptions")
    }
    figures |= system_figures(
        totals,
        pool_tokens=spec.num_blocks * spec.layout.block_size,
        block_size=spec.layout.block_size,
        expected=totals.stored,
        saturated=totals.saturated.stored,
        seconds=result.seconds,
    )
    return SystemResult(None, None, figures, result.interrupted)
