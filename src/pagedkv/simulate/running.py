"""The running sequences in admission order, as the arrays that one batched append takes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_FEW = 128  # up to so many ids a list is searched faster than an array


class RunningSequences:
    """int64 ids, oldest admission first, and as many int32 ones (every sequence grows by one token a step).

    A request's `group_size` sequences come and go together and stand together: request * group_size and the ids after
    it. `ids`, `ones` are views, valid until the next add or remove. Adding is amortized O(group), removing O(running).
    """

    def __init__(self, group_size: int = 1) -> None:
        self.group_size = group_size
        self._ids = np.empty(64, dtype=np.int64)
        self._ones = np.ones(64, dtype=np.int32)
        self._resize(0)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def newest(self) -> int:
        """The request that was admitted last. IndexError if nothing runs."""
        return int(self.ids[-1]) // self.group_size

    def add(self, request: int) -> None:
        """Append a request's sequences as the newest. Invalidates the views."""
        first, count = request * self.group_size, len(self.ids)
        end = count + self.group_size
        if end > len(self._ones):
            self._ids = np.concatenate([self._ids, np.empty(max(end, len(self._ids)), dtype=np.int64)])
            self._ones = np.ones(len(self._ids), dtype=np.int32)
        for member in range(self.group_size):
            self._ids[count + member] = first + member
        self._resize(end)

    def remove(self, request: int) -> None:
        """Take a request out; the others keep their order. ValueError if it does not run. Invalidates the views."""
        count, first = len(self.ids), request * self.group_size
        at = self._place(first)
        end = count - self.group_size
        self._ids[at:end] = self._ids[at + self.group_size : count]
        self._resize(end)

    def _place(self, first: int) -> int:
        if len(self.ids) <= _FEW:
            found: int = self.ids.tolist().index(first)
            return found
        places = np.flatnonzero(self.ids == first)
        if not len(places):
            raise ValueError(f"sequence {first} does not run")
        return int(places[0])

    def _resize(self, count: int) -> None:
        self.ids: NDArray[np.int64] = self._ids[:count]
        self.ones: NDArray[np.int32] = self._ones[:count]
        self.requests = count // self.group_size
