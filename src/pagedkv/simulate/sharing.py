"""What sharing saves: blocks as every sequence counts them (logical) against blocks that are there (physical)."""

from __future__ import annotations

from dataclasses import dataclass
from math import fsum
from typing import TYPE_CHECKING

import numpy as np

from pagedkv.simulate.measure import CHUNK, Totals
from pagedkv.simulate.observer import Observer

if TYPE_CHECKING:
    from pagedkv.simulate.scheduler import Scheduler


@dataclass(frozen=True, slots=True)
class SharingTotals:
    """Sums and peaks over all counted steps; saturated_ratio: the sum of logical / physical over saturated ones."""

    logical_blocks: int
    logical_tokens: int
    peak_logical_blocks: int
    peak_saved_blocks: int
    saturated_ratio: float


class SharingRecorder(Observer):
    """Reads logical and physical blocks of every counted step from the manager's statistics. Modifies itself."""

    def __init__(self) -> None:
        self._pending: list[tuple[int, int, int, bool]] = []
        self._blocks = 0
        self._tokens = 0
        self._peak = 0
        self._peak_saved = 0
        self._ratios: list[float] = []

    def measured(self, scheduler: Scheduler) -> None:
        """Record this step."""
        stats = scheduler.manager.get_stats()
        self._pending.append((stats.logical_blocks, stats.saved_blocks, stats.logical_tokens, bool(scheduler.waiting)))
        if len(self._pending) == CHUNK:
            self._flush()

    def totals(self) -> SharingTotals:
        """Return the sums so far. Valid for ever (a copy)."""
        self._flush()
        return SharingTotals(self._blocks, self._tokens, self._peak, self._peak_saved, fsum(self._ratios))

    def _flush(self) -> None:
        if not self._pending:
            return
        rows = np.array(self._pending, dtype=np.int64)
        self._pending.clear()
        logical, saved, tokens, saturated = rows.T
        self._blocks += int(logical.sum())
        self._tokens += int(tokens.sum())
        self._peak = max(self._peak, int(logical.max()))
        self._peak_saved = max(self._peak_saved, int(saved.max()))
        ratios = logical / (logical - saved)
        self._ratios.append(float(ratios[saturated == 1].sum()))


def nothing_shared(totals: Totals) -> SharingTotals:
    """Return the totals of a run whose sequences share nothing: logical is physical."""
    return SharingTotals(totals.allocated, totals.stored, totals.peak_blocks, 0, float(totals.saturated.steps))
