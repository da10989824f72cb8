"""The running sequences in admission order, as the arrays that one batched append takes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class RunningSequences:
    """int64 ids, oldest admission first, and as many int32 ones (every sequence grows by one token a step).

    `ids` and `ones` are views, valid until the next add or remove. Adding is amortized O(1), removing O(running).
    """

    def __init__(self) -> None:
        self._ids = np.empty(64, dtype=np.int64)
        self._ones = np.ones(64, dtype=np.int32)
        self._resize(0)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def newest(self) -> int:
        """The id that was admitted last. IndexError if nothing runs."""
        return int(self.ids[-1])

    def add(self, seq_id: int) -> None:
        """Append an id as the newest. Invalidates the views."""
        count = len(self.ids)
        if count == len(self._ids):
            self._ids = np.concatenate([self._ids, np.empty_like(self._ids)])
            self._ones = np.ones(len(self._ids), dtype=np.int32)
        self._ids[count] = seq_id
        self._resize(count + 1)

    def remove(self, seq_id: int) -> None:
        """Take an id out; the others keep their order. ValueError if it does not run. Invalidates the views."""
        count = len(self.ids)
        at = self.ids.tolist().index(seq_id)
        self._ids[at : count - 1] = self._ids[at + 1 : count]
        self._resize(count - 1)

    def _resize(self, count: int) -> None:
        self.ids: NDArray[np.int64] = self._ids[:count]
        self.ones: NDArray[np.int32] = self._ones[:count]
