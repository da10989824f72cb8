"""What every first-come-first-served scheduler does, however it gives out memory.

    arrive -> advance (grow, admit) -> the clock, if there is one -> measure -> execute

A subclass says which requests can never fit, how those that run and wait go on, and what becomes of the ended ones.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from typing import TYPE_CHECKING

from pagedkv.simulate.counters import Counters, Rejection
from pagedkv.simulate.step_time.work import StepWork

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pagedkv.simulate.arrivals import Arrivals
    from pagedkv.simulate.step_time import Clock


class StepLoop(ABC):
    """One run; `run()` returns when the work is done or `stop()` was called.

    max_seqs: most requests that may run at once (None: no cap). stop_after: end with the step in which so many
    requests have completed or been rejected (None: never). clock: is told of every step's work (None: time is steps).
    No stream.
    """

    def __init__(
        self,
        arrivals: Arrivals,
        *,
        max_seqs: int | None = None,
        stop_after: int | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.counters = Counters()
        self.rejections: list[Rejection] = []
        self.step = 0
        self.waiting: deque[int] = deque()
        self.clock = clock
        self.work = StepWork()  # of this step; kept for a clock only
        self._arrivals = arrivals
        self._max_seqs = max_seqs
        self._stop_after = stop_after
        self._stopping = False
        self._calendar: dict[int, list[int]] = {}  # last step -> ids; entries of preempted requests are stale
        self._last_step: dict[int, int] = {}  # id -> its last step, requests that generate only
        self._started: list[int] = []  # requests that began to generate in this step; kept for a clock only

    def stop(self) -> None:
        """End the run after the current step (safe in a signal handler)."""
        self._stopping = True

    def run(self) -> None:
        """Step until every request has ended, `stop_after` is reached or `stop()` was called."""
        while not self._stopping and self._arrive():
            self._advance()
            if self.clock is not None:
                self.clock.step(self.work, self._started)
                self._started.clear()
            self._measure()
            self._execute()
            self.step += 1
            if self._stop_after is not None and self.ended >= self._stop_after:
                break

    @property
    def ended(self) -> int:
        """Requests that completed or were rejected."""
        return self.counters.completed + len(self.rejections)

    @abstractmethod
    def _rejection(self, request: int) -> Rejection | None:
        """Return why the request could not fit an idle pool, None if it could."""

    @abstractmethod
    def _runs(self) -> bool:
        """Whether any request runs."""

    @abstractmethod
    def _advance(self) -> None:
        """Let the running requests grow, and admit from the head of the queue."""

    @abstractmethod
    def _measure(self) -> None:
        """Record the step."""

    @abstractmethod
    def _leave(self, done: Sequence[int]) -> None:
        """Take back what these requests hold: they have generated their last token."""

    def _arrive(self) -> bool:
        """Queue what is due; jump over steps in which nothing runs or waits. False: nothing is left to do."""
        while True:
            for request in self._arrivals.due(self.step):
                rejection = self._rejection(request)
                if rejection is None:
                    self.waiting.append(request)
                    if self.clock is not None:
                        self.clock.arrived(request, self._arrivals.seconds(request))
                else:
                    self.rejections.append(rejection)
                    self._arrivals.ended((request,))
            if self.waiting or self._runs():
                return True
            if self._stopping or (self._stop_after is not None and self.ended >= self._stop_after):
                return False
            coming = self._arrivals.skip(self.step)
            if coming is None:
                return False
            self.step = coming

    def _schedule(self, request: int, remaining: int) -> None:
        """The request runs from this step on and has `remaining` tokens to generate."""
        last_step = self.step + remaining - 1
        self._last_step[request] = last_step
        self._calendar.setdefault(last_step, []).append(request)
        if self.clock is not None:
            self._started.append(request)

    def _execute(self) -> None:
        """Every running sequence generates one token; requests that have all of theirs leave."""
        scheduled = self._calendar.pop(self.step, None)
        if scheduled is None:
            return
        # A preempted request left its old entry behind; the step of its new admission is always a later one.
        done = [request for request in scheduled if self._last_step.get(request) == self.step]
        if not done:
            return
        if self.clock is not None:
            self.clock.ended(done, self._arrivals.output)
        self._leave(done)
        for request in done:
            del self._last_step[request]
        self.counters.completed += len(done)
        self._arrivals.ended(done)
