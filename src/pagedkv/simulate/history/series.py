"""A time series of bounded length: buckets of equally many steps, that keep minimum, sum, maximum and counts.

Invariants: at most `limit` buckets; every bucket but the last holds `stride` steps, the last 1 to `stride`; stride is a
power of two, and the least one with which the steps fit.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


class ThinnedSeries:
    """Takes steps a chunk at a time. levels: quantities a step has; counts: events that happen in it.

    limit: most buckets. Integers are exact. Cost: O(chunk + limit) a chunk. Modifies itself; no stream.
    """

    def __init__(self, levels: int, counts: int, *, limit: int = 1000) -> None:
        self.steps = 0
        self.stride = 1
        self.sizes: Integers = np.zeros(0, dtype=np.int64)
        self.first: Integers = np.zeros(0, dtype=np.int64)
        self.last: Integers = np.zeros(0, dtype=np.int64)
        self.least: Integers = np.zeros((levels, 0), dtype=np.int64)
        self.sums: Integers = np.zeros((levels, 0), dtype=np.int64)
        self.most: Integers = np.zeros((levels, 0), dtype=np.int64)
        self.counts: Integers = np.zeros((counts, 0), dtype=np.int64)
        self.ends: Floats = np.zeros(0)
        self._limit = limit

    def __len__(self) -> int:
        """Buckets."""
        return len(self.sizes)

    def extend(self, steps: Integers, levels: Integers, counts: Integers, ends: Floats) -> None:
        """Add steps that follow those before: [n] numbers, [levels, n], [counts, n], [n] the clock at their ends."""
        if not len(steps):
            return
        self.steps += len(steps)
        while -(-self.steps // self.stride) > self._limit:
            self.stride *= 2
        sizes = np.concatenate([self.sizes, np.ones(len(steps), dtype=np.int64)])
        begins = np.cumsum(sizes) - sizes
        # Old buckets begin at multiples of the old stride, which divides the new one: none is ever cut.
        cuts = np.flatnonzero(np.diff(begins // self.stride, prepend=-1))
        final = np.append(cuts[1:], len(sizes)) - 1
        self.sizes = np.add.reduceat(sizes, cuts)
        self.first = np.concatenate([self.first, steps])[cuts]
        self.last = np.concatenate([self.last, steps])[final]
        self.ends = np.concatenate([self.ends, ends])[final]
        self.least = np.minimum.reduceat(np.hstack([self.least, levels]), cuts, axis=1)
        self.sums = np.add.reduceat(np.hstack([self.sums, levels]), cuts, axis=1)
        self.most = np.maximum.reduceat(np.hstack([self.most, levels]), cuts, axis=1)
        self.counts = np.add.reduceat(np.hstack([self.counts, counts]), cuts, axis=1)
