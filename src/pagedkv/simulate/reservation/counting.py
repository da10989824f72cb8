"""Counting: any free tokens will do, wherever they are. What no contiguous system can do better than."""

from __future__ import annotations


class Counting:
    """A number of free tokens. Cost: O(1)."""

    def __init__(self, tokens: int) -> None:
        self.largest = tokens
        self._free = tokens

    def take(self, tokens: int) -> int | None:
        if tokens > self._free:
            return None
        self._free -= tokens
        return 0

    def give(self, start: int, tokens: int) -> None:
        self._free += tokens
