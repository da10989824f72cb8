"""How an item of the self-test fails."""

from __future__ import annotations


class CheckFailedError(Exception):
    """What an item found, in one sentence."""


def require(condition: bool, otherwise: str) -> None:
    """Raise CheckFailedError unless the condition holds; an `assert` would vanish under python -O."""
    if not condition:
        raise CheckFailedError(otherwise)
