"""Who wrote what: for each sequence and position, the sequence whose pattern must be there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Owners = NDArray[np.int64]


class Histories:
    """Owners of every position of sequences that share blocks: the writer's, which a fork or reorder copies.

    What a sequence wrote before a preemption is written again from its start. Modifies itself; no stream.
    """

    def __init__(self) -> None:
        self._owners: dict[int, Owners] = {}

    def wrote(self, seq_ids: Owners, counts: NDArray[np.int32], lengths: NDArray[np.int32]) -> Owners:
        """seq_ids[i] wrote its last counts[i] tokens, of lengths[i]; return their owners: itself."""
        for seq_id, count, length in zip(seq_ids.tolist(), counts.tolist(), lengths.tolist(), strict=True):
            self._room(seq_id, length)[length - count : length] = seq_id
        return np.repeat(seq_ids, counts)

    def forked(self, parent: int, children: Sequence[int]) -> None:
        """The children have their parent's history."""
        for child in children:
            self._owners[child] = self._owners[parent].copy()

    def reordered(self, seq_ids: Owners, parents: Owners) -> None:
        """seq_ids[i] has the history that seq_ids[parents[i]] had, all at once."""
        moved = np.flatnonzero(parents != np.arange(len(parents)))
        before = [self._owners[int(seq_ids[parents[place]])] for place in moved]
        for place, owners in zip(moved.tolist(), before, strict=True):
            self._owners[int(seq_ids[place])] = owners.copy()

    def owners(self, seq_ids: Sequence[int], lengths: NDArray[np.int32]) -> Owners:
        """Return the owners of these sequences' positions 0 .. lengths[i] - 1, concatenated. Fresh array."""
        parts = [self._owners[seq_id][:length] for seq_id, length in zip(seq_ids, lengths.tolist(), strict=True)]
        return np.concatenate([np.empty(0, dtype=np.int64), *parts])

    def ended(self, seq_ids: Sequence[int]) -> None:
        """Forget these sequences."""
        for seq_id in seq_ids:
            del self._owners[seq_id]

    def _room(self, seq_id: int, length: int) -> Owners:
        owners = self._owners.get(seq_id)
        if owners is None or len(owners) < length:
            grown = np.empty(max(length, 64) * 3 // 2, dtype=np.int64)
            if owners is not None:
                grown[: len(owners)] = owners
            self._owners[seq_id] = owners = grown
        return owners
