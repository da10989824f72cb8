"""Where jobs run: the protocol, and any `concurrent.futures`-like executor behind it."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from enum import Enum
from typing import Any, Protocol, runtime_checkable


class Verdict(Enum):
    """What an error of a future means: AGAIN: a worker was lost, so run it again; GIVE_UP: lost too often already;
    RAISE: the task's own error.
    """

    AGAIN = "again"
    GIVE_UP = "give up"
    RAISE = "raise"


@runtime_checkable
class Workers(Protocol):
    """Where jobs run. Used from one thread."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
        """Errors: BrokenExecutor once a worker was lost, until `restart`."""
        ...

    def room(self) -> int:
        """How many jobs may be under way at once."""
        ...

    def judge(self, error: BaseException) -> Verdict: ...

    def restart(self) -> bool:
        """After a loss, with nothing under way: whether there are workers again."""
        ...

    def close(self, *, at_once: bool) -> None:
        """at_once: end what still runs."""
        ...


class GivenWorkers:
    """An executor that somebody else made and will shut down. Once it is broken it stays so."""

    def __init__(self, executor: Executor, *, room: int | None = None) -> None:
        self._executor = executor
        self._room = room or 2 * (os.cpu_count() or 1)

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
        return self._executor.submit(function, *arguments)

    def room(self) -> int:
        return self._room

    def judge(self, error: BaseException) -> Verdict:
        return judge_loss(error)

    def restart(self) -> bool:
        return False

    def close(self, *, at_once: bool) -> None:
        """Whoever made it closes it."""


def judge_loss(error: BaseException) -> Verdict:
    """A broken executor, or a future that somebody else canceled, is a loss; anything else the task's own."""
    return Verdict.AGAIN if isinstance(error, (BrokenExecutor, CancelledError)) else Verdict.RAISE
