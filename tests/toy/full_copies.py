"""The cache without sharing: every sequence owns its vectors, and whoever forks copies them all.

Beside them it counts what sharing in blocks must come to. Every write has a number of its own, so two sequences hold
the same block exactly when they hold the same writes in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Protocol

import numpy as np

from .language_model import STORED, Vector

TOKEN_BYTES = 8 * STORED


@dataclass(frozen=True, slots=True)
class Usage:
    """Blocks as each sequence counts its own, blocks as they are, and copies on write since the beginning."""

    logical: int
    physical: int
    copies: int


class Store(Protocol):
    """What a decoder needs of a cache. Rows: float64 [n, STORED], one for each sequence named."""

    history: list[Usage]  # after each call but read

    def begin(self, seq_id: int) -> None: ...
    def read(self, seq_id: int) -> Vector: ...
    def append(self, seq_ids: Sequence[int], rows: Vector) -> None: ...
    def fork(self, parent_id: int, child_ids: Sequence[int]) -> None: ...
    def reorder(self, seq_ids: Sequence[int], parents: Sequence[int]) -> None: ...
    def truncate(self, seq_id: int, length: int) -> None: ...
    def free(self, seq_ids: Sequence[int]) -> None: ...


class FullCopies:
    """A `Store` of plain arrays; `block_size` is for the counts alone."""

    def __init__(self, block_size: int) -> None:
        self.history: list[Usage] = []
        self.peak_bytes = 0
        self._block_size = block_size
        self._vectors: dict[int, Vector] = {}
        self._writes: dict[int, list[int]] = {}
        self._numbers = count()
        self._copies = 0

    def begin(self, seq_id: int) -> None:
        self._vectors[seq_id] = np.zeros((0, STORED))
        self._writes[seq_id] = []
        self._record()

    def read(self, seq_id: int) -> Vector:
        return self._vectors[seq_id]

    def append(self, seq_ids: Sequence[int], rows: Vector) -> None:
        self._count_copies(seq_ids)
        for seq_id, row in zip(seq_ids, rows, strict=True):
            self._vectors[seq_id] = np.concatenate([self._vectors[seq_id], row[None]])
            self._writes[seq_id] = [*self._writes[seq_id], next(self._numbers)]
        self._record()

    def fork(self, parent_id: int, child_ids: Sequence[int]) -> None:
        for child in child_ids:
            self._vectors[child] = self._vectors[parent_id].copy()
            self._writes[child] = self._writes[parent_id]
        self._record()

    def reorder(self, seq_ids: Sequence[int], parents: Sequence[int]) -> None:
        sources = [seq_ids[parent] for parent in parents]
        vectors = [self._vectors[source].copy() for source in sources]
        writes = [self._writes[source] for source in sources]
        self._vectors.update(zip(seq_ids, vectors, strict=True))
        self._writes.update(zip(seq_ids, writes, strict=True))
        self._record()

    def truncate(self, seq_id: int, length: int) -> None:
        self._vectors[seq_id] = self._vectors[seq_id][:length]
        self._writes[seq_id] = self._writes[seq_id][:length]
        self._record()

    def free(self, seq_ids: Sequence[int]) -> None:
        for seq_id in seq_ids:
            del self._vectors[seq_id], self._writes[seq_id]
        self._record()

    def _count_copies(self, writers: Sequence[int]) -> None:
        """Of r holders of a partial block, k of them writers, k get a copy; the last holder writes in place."""
        holders = Counter(map(self._tail, self._writes))
        writing = Counter(map(self._tail, writers))
        self._copies += sum(min(k, holders[tail] - 1) for tail, k in writing.items() if tail)

    def _tail(self, seq_id: int) -> tuple[int, ...]:
        writes = self._writes[seq_id]
        return tuple(writes[len(writes) - len(writes) % self._block_size :])

    def _blocks(self) -> Iterator[tuple[int, ...]]:
        for writes in self._writes.values():
            for start in range(0, len(writes), self._block_size):
                yield tuple(writes[start : start + self._block_size])

    def _record(self) -> None:
        blocks = list(self._blocks())
        self.history.append(Usage(len(blocks), len(set(blocks)), self._copies))
        self.peak_bytes = max(self.peak_bytes, TOKEN_BYTES * sum(map(len, self._vectors.values())))
