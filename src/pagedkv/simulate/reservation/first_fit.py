"""First fit: the free gap with the lowest address that is long enough, to the token."""

from __future__ import annotations

from bisect import bisect_left


class FirstFit:
    """Gaps in order of address. Invariant: no gap is empty, and no two touch. Cost: O(gaps)."""

    def __init__(self, tokens: int) -> None:
        self.largest = tokens
        self._starts = [0]
        self._lengths = [tokens]

    def take(self, tokens: int) -> int | None:
        for at, length in enumerate(self._lengths):
            if length >= tokens:
                return self._cut(at, tokens)
        return None

    def give(self, start: int, tokens: int) -> None:
        at = bisect_left(self._starts, start)
        if at < len(self._starts) and start + tokens == self._starts[at]:  # the gap behind it
            tokens += self._lengths[at]
            del self._starts[at], self._lengths[at]
        if at > 0 and self._starts[at - 1] + self._lengths[at - 1] == start:  # the gap before it
            self._lengths[at - 1] += tokens
            return
        self._starts.insert(at, start)
        self._lengths.insert(at, tokens)

    def _cut(self, at: int, tokens: int) -> int:
        """Take the first tokens of a gap."""
        start = self._starts[at]
        if self._lengths[at] == tokens:
            del self._starts[at], self._lengths[at]
        else:
            self._starts[at] += tokens
            self._lengths[at] -= tokens
        return start
