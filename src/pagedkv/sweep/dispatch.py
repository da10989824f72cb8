"""Sends jobs to workers until every one has ended, whatever becomes of the workers.

A lost worker loses no job: it is sent again. What was under way when a worker died may be what killed it, so it is sent
again last and alone, where the next death is its own; after three losses it is given up, and the others go on.
"""

from __future__ import annotations

import queue
from collections import Counter, deque
from collections.abc import Callable, Mapping
from concurrent.futures import BrokenExecutor, CancelledError, Future
from typing import Any, TypeAlias

from pagedkv.sweep.job import Failure, Job, carry_out
from pagedkv.sweep.program import Document
from pagedkv.sweep.workers import Verdict, Workers

LOSSES = 3
TICK = 0.5  # seconds between two words about progress while nothing ends

End: TypeAlias = Document | Failure


class Dispatch:
    """One use: `run` returns when all jobs have ended, or soon after `stop`, with what had ended until then.

    on_end is told of every end, in the order of time; on_tick is called about twice a second. Errors of a task that are
    no Failure are raised by `run`; so is what on_end raises.
    """

    def __init__(self, jobs: Mapping[int, Job], *, on_end: Callable[[int, End], None], on_tick: Callable[[], None]):
        self._jobs = jobs
        self._on_end = on_end
        self._on_tick = on_tick
        self._fresh = deque(jobs)
        self._suspects: deque[int] = deque()
        self._losses: Counter[int] = Counter()
        self._under_way: dict[Future[Any], int] = {}
        # Its put may be called by a signal's handler while get waits; that is what a simple queue is for.
        self._ended: queue.SimpleQueue[Future[Any] | None] = queue.SimpleQueue()
        self._broken: BaseException | None = None
        self._refusals = 0  # in a row
        self._stopped = False

    def stop(self) -> None:
        """End soon. May be called from anywhere, a signal's handler too."""
        self._stopped = True
        self._ended.put(None)

    def run(self, workers: Workers) -> None:
        """Use the workers and close them."""
        at_once = True
        try:
            while not self._stopped and (self._under_way or self._fresh or self._suspects):
                if self._broken is not None and not self._under_way:
                    self._mend(workers)
                self._send(workers)
                if self._under_way:
                    self._await(workers)
            at_once = self._stopped
        finally:
            try:
                self._keep_what_ended()
            finally:
                workers.close(at_once=at_once)

    def _send(self, workers: Workers) -> None:
        room = workers.room()
        while self._broken is None and self._fresh and len(self._under_way) < room:
            self._send_one(workers, self._fresh)
        if self._broken is None and self._suspects and not self._under_way and not self._fresh:
            self._send_one(workers, self._suspects)

    def _send_one(self, workers: Workers, waiting: deque[int]) -> None:
        number = waiting.popleft()
        try:
            future = workers.submit(carry_out, self._jobs[number])
        except (BrokenExecutor, RuntimeError) as error:  # RuntimeError: an executor that was shut down
            waiting.appendleft(number)
            self._broken = error
            self._refusals += 1
            return
        self._refusals = 0
        self._under_way[future] = number
        future.add_done_callback(self._ended.put)

    def _await(self, workers: Workers) -> None:
        try:
            future = self._ended.get(timeout=TICK)
        except queue.Empty:
            future = None
        if future is not None:
            self._take(future, workers)
        self._on_tick()

    def _take(self, future: Future[Any], workers: Workers) -> None:
        number = self._under_way.pop(future)
        error = CancelledError("the executor canceled it") if future.cancelled() else future.exception()
        if error is None:
            self._on_end(number, future.result())
            return
        verdict = workers.judge(error)
        if verdict is Verdict.RAISE:
            raise error
        self._losses[number] += 1
        if isinstance(error, (BrokenExecutor, CancelledError)):
            self._broken = error
        if verdict is Verdict.GIVE_UP or self._losses[number] >= LOSSES:
            self._give_up(number, error)
        else:
            self._suspects.append(number)

    def _give_up(self, number: int, error: BaseException) -> None:
        text = f"its workers were lost ({_said(error)}); it may need more memory than there is: try fewer workers"
        self._on_end(number, Failure("WorkerLost", text))

    def _mend(self, workers: Workers) -> None:
        # Workers that start and take nothing, again and again, would keep us here for ever.
        if self._refusals < LOSSES and workers.restart():
            self._broken = None
            return
        assert self._broken is not None
        text = f"there are no workers any more ({_said(self._broken)}); run the sweep again once there are"
        for number in (*self._fresh, *self._suspects):
            self._on_end(number, Failure("WorkerLost", text))
        self._fresh.clear()
        self._suspects.clear()

    def _keep_what_ended(self) -> None:
        """A result that is there when the run ends early is not thrown away; what has not begun does not begin."""
        for future, number in self._under_way.items():
            if future.done() and not future.cancelled() and future.exception() is None:
                self._on_end(number, future.result())
            else:
                future.cancel()
        self._under_way.clear()


def _said(error: BaseException | None) -> str:
    return " ".join(str(error).split()) or type(error).__name__
