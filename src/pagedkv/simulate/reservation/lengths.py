"""How many tokens a contiguous system reserves for a request (p, o) when it is admitted, L being its longest sequence.

max: L. pow2: the prompt and the output rounded up to a power of two, as a guess of what the request will need.
oracle: what it will need, known beforehand. No more than L in any of them.
"""

from __future__ import annotations

from collections.abc import Callable

Reservation = Callable[[int, int, int], int]


def reserve_max(prompt: int, output: int, longest: int) -> int:
    """Return L."""
    return longest


def reserve_pow2(prompt: int, output: int, longest: int) -> int:
    """Return min(p + next_pow2(o), L)."""
    return min(prompt + next_power_of_two(output), longest)


def reserve_oracle(prompt: int, output: int, longest: int) -> int:
    """Return min(p + o, L)."""
    return min(prompt + output, longest)


RESERVATIONS: dict[str, Reservation] = {"max": reserve_max, "pow2": reserve_pow2, "oracle": reserve_oracle}


def next_power_of_two(number: int) -> int:
    """Return the smallest power of two that is at least `number`, itself at least 1."""
    return 1 << (number - 1).bit_length()
