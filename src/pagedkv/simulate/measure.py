"""Measurements of counted steps: exact integer sums, and float means summed pairwise a chunk at a time.

A step adds four integers; memory stays constant however long the run is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import fsum

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]
CHUNK = 4096  # steps between two vectorized sums; also how often a run tells its progress


@dataclass(frozen=True, slots=True)
class SaturatedTotals:
    """Sums over the steps that ended their admission with a request still waiting."""

    steps: int
    allocated: int
    stored: int
    running: int
    fragmentation: float


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums and peaks over all counted steps. Blocks and tokens are counts; fragmentation is a sum of fractions.

    running counts requests; peak_running_then: those that run in the first step with peak_blocks.
    """

    steps: int
    allocated: int
    stored: int
    running: int
    fragmentation: float
    peak_blocks: int
    peak_tokens: int
    peak_running: int
    peak_running_then: int
    saturated: SaturatedTotals


class Recorder:
    """Collects (allocated blocks, stored tokens, running, waiting) of every counted step.

    on_chunk is called after every 4096 steps; on_rows with the rows of those, and of the last ones when the totals are
    asked for: int64 [n, 4], valid for the call. Modifies itself; no stream.
    """

    def __init__(self, block_size: int, on_chunk: Callable[[], None] | None = None) -> None:
        self.on_rows: Callable[[Rows], None] | None = None
        self._block_size = block_size
        self._on_chunk = on_chunk
        self._pending: list[tuple[int, int, int, int]] = []
        self._sums = np.zeros(4, dtype=np.int64)
        self._saturated_sums = np.zeros(4, dtype=np.int64)
        self._fragmentation: list[float] = []
        self._saturated_fragmentation: list[float] = []
        self._peaks = [0, 0, 0]
        self._running_at_peak = 0

    def add(self, allocated: int, stored: int, running: int, waiting: int) -> None:
        """Record one counted step; at least one request runs, so allocated > 0. A step with a queue is saturated."""
        self._pending.append((allocated, stored, running, waiting))
        if len(self._pending) == CHUNK:
            self._flush()
            if self._on_chunk is not None:
                self._on_chunk()

    def totals(self) -> Totals:
        """Return the sums so far. Valid for ever (a copy)."""
        self._flush()
        _, allocated, stored, running = map(int, self._sums)
        return Totals(
            steps=int(self._sums[0]),
            allocated=allocated,
            stored=stored,
            running=running,
            fragmentation=fsum(self._fragmentation),
            peak_blocks=self._peaks[0],
            peak_tokens=self._peaks[1],
            peak_running=self._peaks[2],
            peak_running_then=self._running_at_peak,
            saturated=SaturatedTotals(
                steps=int(self._saturated_sums[0]),
                allocated=int(self._saturated_sums[1]),
                stored=int(self._saturated_sums[2]),
                running=int(self._saturated_sums[3]),
                fragmentation=fsum(self._saturated_fragmentation),
            ),
        )

    def _flush(self) -> None:
        if not self._pending:
            return
        rows = np.array(self._pending, dtype=np.int64)
        self._pending.clear()
        if self.on_rows is not None:
            self.on_rows(rows)
        self._raise_peaks(rows)
        slots = rows[:, 0] * self._block_size
        # (slots - stored) / slots, not 1 - stored / slots: the difference is exact, so nothing cancels.
        fragmentation = (slots - rows[:, 1]) / slots
        saturated = rows[:, 3] > 0
        self._sums[0] += len(rows)
        self._sums[1:] += rows[:, :3].sum(axis=0)
        self._fragmentation.append(float(fragmentation.sum()))
        self._saturated_sums[0] += int(saturated.sum())
        self._saturated_sums[1:] += rows[saturated, :3].sum(axis=0)
        self._saturated_fragmentation.append(float(fragmentation[saturated].sum()))

    def _raise_peaks(self, rows: Rows) -> None:
        first = int(rows[:, 0].argmax())  # argmax names the first of equal peaks
        if int(rows[first, 0]) > self._peaks[0]:
            self._running_at_peak = int(rows[first, 2])
        self._peaks = [max(old, int(new)) for old, new in zip(self._peaks, rows[:, :3].max(axis=0), strict=True)]
