"""A progress bar for long runs: only on a terminal, and only after the first second."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

SHOW_AFTER = 1.0  # seconds; a bar that flashes by is noise, and rich costs a tenth of a second to import
REDRAW = 0.1
MEAN_OVER = 24 * 3600.0  # seconds; over rich's 30, steps that take longer than that have no speed


class RunProgress:
    """`update(done)` draws at most ten times a second and nothing where standard output is no terminal.

    remaining: show the time that is left, too, at the mean speed so far.
    """

    def __init__(self, label: str, total: int | None, *, enabled: bool = True, remaining: bool = False) -> None:
        self._remaining = remaining
        self._label = label
        self._total = total
        self._enabled = enabled and sys.stdout.isatty()
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._next = time.monotonic() + SHOW_AFTER

    def __enter__(self) -> RunProgress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, done: int) -> None:
        """Say how many have ended."""
        now = time.monotonic()
        if not self._enabled or now < self._next:
            return
        self._next = now + REDRAW
        if self._bar is None or self._task is None:
            self._start()
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=done, refresh=True)

    def _start(self) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
        from rich.progress import TimeRemainingColumn as TimeLeft

        columns = (
            *(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()),
            *((TextColumn("left"), TimeLeft()) if self._remaining else ()),
        )
        # auto_refresh would start a thread that takes the GIL from the run; transient: the report replaces the bar.
        self._bar = Progress(*columns, auto_refresh=False, transient=True, speed_estimate_period=MEAN_OVER)
        self._task = self._bar.add_task(self._label, total=self._total)
        self._bar.start()
