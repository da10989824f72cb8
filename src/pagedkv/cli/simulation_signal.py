"""Ctrl-C during a simulation."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Protocol


class Stoppable(Protocol):
    """A run that can end early with the figures so far."""

    def stop(self) -> None: ...


@contextmanager
def interruptible(run: Stoppable) -> Iterator[None]:
    """Turn the first SIGINT into `stop()`: an exception would cut a step in the middle."""

    def stop(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        run.stop()

    try:
        before = signal.signal(signal.SIGINT, stop)
    except ValueError:  # not the main thread: signals are somebody else's
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
