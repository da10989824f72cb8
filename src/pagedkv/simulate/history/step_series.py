"""The counted steps of a run as a bounded series: what the measurements hold, and the events between them."""

from __future__ import annotations

from array import array
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

from pagedkv.simulate.history.series import Floats, Integers, ThinnedSeries

if TYPE_CHECKING:
    from pagedkv.stats import CacheStats

LEVELS = ("allocated_blocks", "stored_tokens", "running", "waiting")  # in the order of the measurements' columns
EVENTS = ("preemptions", "completed", "rejected")
FOUND = ("queried_tokens", "hit_tokens", "evictions")


class StepSeries:
    """Steps are named by their place among the counted ones, from 0. caching: prompts are looked up. limit: buckets.

    Events and jumps of a step come before its measurements do, but what completes in it comes after. Modifies itself;
    no stream.
    """

    def __init__(self, *, caching: bool, limit: int = 1000) -> None:
        self._caching = caching
        self._series = ThinnedSeries(len(LEVELS), len(EVENTS) + len(FOUND), limit=limit)
        self._events: tuple[defaultdict[int, int], ...] = tuple(defaultdict(int) for _ in EVENTS)
        self.preemptions, self.completed, self.rejected = self._events  # by step
        self._jumps: list[tuple[int, int]] = []
        self._found = array("q")
        self._found_before = np.zeros((len(FOUND), 1), dtype=np.int64)
        self._seconds: list[float] = []
        self._last_step = -1

    def jumped(self, counted: int, skipped: int) -> None:
        """Nothing ran or waited in so many steps before this one."""
        self._jumps.append((counted, skipped))

    def found(self, stats: CacheStats) -> None:
        """What prefix caching has found and lost up to this step; once a step, in order."""
        self._found.extend((stats.queried_tokens, stats.hit_tokens, stats.evictions))

    def clock(self, seconds: float) -> None:
        """The modeled time at the end of this step; once a step, in order, or never."""
        self._seconds.append(seconds)

    def measured(self, rows: Integers) -> None:
        """Add the measurements of the next steps, int64 [n, 4]; the array is not kept."""
        begin, count = self._series.steps, len(rows)
        counts = np.zeros((len(EVENTS) + len(FOUND), count), dtype=np.int64)
        for event, by_step in enumerate(self._events):
            for step in tuple(by_step):
                if step < begin:  # completed in the last step of the rows before, after they were measured
                    self._series.counts[event, -1] += by_step.pop(step)
                elif step < begin + count:
                    counts[event, step - begin] = by_step.pop(step)
        if self._caching:
            found = np.array(self._found, dtype=np.int64).reshape(-1, len(FOUND)).T
            counts[len(EVENTS) :] = np.diff(found, axis=1, prepend=self._found_before)
            self._found_before = found[:, -1:]
            self._found = array("q")
        seconds: Floats = np.array(self._seconds) if self._seconds else np.zeros(count)
        self._seconds.clear()
        self._series.extend(self._numbers(begin, count), rows.T, counts, seconds)

    def result(self, *, timed: bool) -> dict[str, Any]:
        """Return the series. timed: there is a clock. All steps are measured; may be called once."""
        series = self._series
        if len(series):
            # Completed in the last step; rejected after it, when nothing ran any more.
            series.counts[: len(EVENTS), -1] += [sum(by_step.values()) for by_step in self._events]
        levels = {
            name: {"min": low.tolist(), "mean": (total / series.sizes).tolist(), "max": high.tolist()}
            for name, low, total, high in zip(LEVELS, series.least, series.sums, series.most, strict=True)
        }
        return {
            "steps_per_bucket": series.stride,
            "first_step": series.first.tolist(),
            "last_step": series.last.tolist(),
            **levels,
            **{name: row.tolist() for name, row in zip(EVENTS + FOUND, series.counts, strict=True)},
            "seconds": series.ends.tolist() if timed else None,
        }

    def _numbers(self, begin: int, count: int) -> Integers:
        """Return the numbers of the next steps: one after the other but for the jumps."""
        ahead = np.ones(count, dtype=np.int64)
        for counted, skipped in self._jumps:
            ahead[counted - begin] += skipped
        self._jumps.clear()
        numbers: Integers = self._last_step + np.cumsum(ahead)
        self._last_step = int(numbers[-1])
        return numbers
