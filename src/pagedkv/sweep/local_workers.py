"""Local worker processes: a pool that is made again when one of them dies, and that never outlives this process.

Facts relied on: a process pool whose worker dies fails everything under way, and is of no use from then on. A terminal
sends Ctrl-C to all processes of a command; a blocked signal stays blocked in what a process starts, whatever handlers
are set there. A pipe's reader sees its end when the last writer is closed, and be it because a process was killed.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

from pagedkv.errors import BackendError
from pagedkv.sweep.workers import Verdict, judge_loss

STARTS = 3


class LocalWorkers:
    """`processes` worker processes, one job at a time each.

    Errors: BackendError WORKERS_DO_NOT_START if they die before their first job, three times in a row.
    """

    def __init__(self, processes: int) -> None:
        self._processes = processes
        self._pool: ProcessPoolExecutor | None = None
        self._life: tuple[Connection, ...] = ()  # a pipe's ends; workers have copies of the first alone
        self._start()

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
        assert self._pool is not None
        with _interrupts_blocked():  # a pool starts its processes when it needs them
            return self._pool.submit(function, *arguments)

    def room(self) -> int:
        # No more than can run: all that is under way when a worker dies is run again.
        return self._processes

    def judge(self, error: BaseException) -> Verdict:
        return judge_loss(error)

    def restart(self) -> bool:
        self.close(at_once=True)
        self._start()
        return True

    def close(self, *, at_once: bool) -> None:
        pool, self._pool = self._pool, None
        if at_once:
            self._end()
        if pool is not None:
            pool.shutdown(wait=True, cancel_futures=True)
        self._end()

    def _end(self) -> None:
        for end in self._life:
            end.close()

    def _start(self) -> None:
        for _ in range(STARTS):
            # spawn: a copy of a process with threads (Dask's, a caller's) may wait for a lock that nobody holds.
            context = multiprocessing.get_context("spawn")
            self._life = context.Pipe(duplex=False)
            self._pool = ProcessPoolExecutor(self._processes, context, initializer=_begin, initargs=(self._life[0],))
            try:
                self.submit(_ready).result()
                return
            except BrokenExecutor:
                self.close(at_once=True)
            except BaseException:
                self.close(at_once=True)
                raise
        raise BackendError(
            name="WORKERS_DO_NOT_START",
            text=f"worker processes died {STARTS} times before their first job; see what they printed, and try fewer",
            call=f"starting {self._processes} worker processes",
        )


def _begin(ends: Connection) -> None:
    """In a worker: never hear Ctrl-C, and end with the process that started it, in the middle of a job if need be."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # where signals cannot be blocked
    threading.Thread(target=_end_with, args=(ends,), daemon=True).start()


def _end_with(ends: Connection) -> None:
    try:
        ends.recv()
    except (EOFError, OSError):
        os._exit(1)


def _ready() -> int:
    """In a worker: its process started, and found this module."""
    return os.getpid()


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
