"""Where reserved tokens lie in a pool."""

from __future__ import annotations

from typing import Protocol


class Placement(Protocol):
    """Token places of one pool, given out in contiguous stretches. Modifies itself; no stream.

    `largest`: the longest stretch that the idle pool can give, in tokens.
    """

    largest: int

    def take(self, tokens: int) -> int | None:
        """Return where `tokens` >= 1 places start; None, and nothing is changed, if they do not fit now."""

    def give(self, start: int, tokens: int) -> None:
        """Take back what `take(tokens)` has returned as `start`."""
