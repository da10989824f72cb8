"""Arrivals by a modeled clock: a request joins at the first step that begins at or after its time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from pagedkv.errors import InvalidArgumentError
from pagedkv.simulate.step_time import Clock
from pagedkv.simulate.traces.rows import TICKS_PER_SECOND
from pagedkv.simulate.workload import Workload


class TimedReplay:
    """Requests of a workload at their times, the first at 0 seconds. Where nothing runs or waits, the clock is set to
    the next one's time. Errors: InvalidArgumentError for a workload without times.
    """

    def __init__(self, workload: Workload, clock: Clock) -> None:
        if workload.arrival_ticks is None:
            raise InvalidArgumentError("the requests have no times to replay; give all of them at once")
        self.prompt: list[int] = workload.prompt_tokens.tolist()
        self.output: list[int] = workload.output_tokens.tolist()
        ticks = workload.arrival_ticks
        self._seconds: list[float] = ((ticks - ticks[:1]) / TICKS_PER_SECOND).tolist()
        self._clock = clock
        self._returned = 0

    def due(self, step: int) -> Iterable[int]:
        start, now = self._returned, self._clock.now
        if start == len(self._seconds) or self._seconds[start] > now:
            return ()
        self._returned = bisect_right(self._seconds, now, lo=start)
        return range(start, self._returned)

    def skip(self, step: int) -> int | None:
        if self._returned == len(self._seconds):
            return None
        self._clock.skip_to(self._seconds[self._returned])
        return step

    def seconds(self, request: int) -> float | None:
        return self._seconds[request]

    def ended(self, requests: Sequence[int]) -> None:
        """Nothing to do: a replay does not wait for its requests."""
