"""How many tokens a drawn prompt or output has: constant, uniform or lognormal."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pagedkv.arguments import INT32_MAX, whole_number
from pagedkv.errors import InvalidArgumentError

MOST_VARIATION = 100.0


class Lengths(Protocol):
    """A distribution of whole numbers from 1 to 2**31-1. `draw` returns int64 [count] and modifies the generator."""

    def draw(self, generator: np.random.Generator, count: int) -> NDArray[np.int64]: ...


@dataclass(frozen=True, slots=True)
class Uniform:
    """Every number from low to high alike; a constant if they are equal. Errors: InvalidArgumentError."""

    low: int
    high: int

    def __post_init__(self) -> None:
        whole_number(self.low, "shortest length", minimum=1, maximum=INT32_MAX)
        whole_number(self.high, "longest length", minimum=self.low, maximum=INT32_MAX)

    def draw(self, generator: np.random.Generator, count: int) -> NDArray[np.int64]:
        return generator.integers(self.low, self.high, size=count, dtype=np.int64, endpoint=True)


@dataclass(frozen=True, slots=True)
class Lognormal:
    """Lognormal with this mean and coefficient of variation (deviation / mean), rounded to 1 or more.

    Errors: InvalidArgumentError for a mean outside 1 .. 2**31-1 or a variation outside 0 .. 100.
    """

    mean: float
    variation: float

    def __post_init__(self) -> None:
        if not 1 <= self.mean <= INT32_MAX:
            raise InvalidArgumentError(f"mean length is {self.mean}; give one from 1 to {INT32_MAX}")
        if not 0 <= self.variation <= MOST_VARIATION:
            raise InvalidArgumentError(f"variation of lengths is {self.variation}; give one from 0 to 100")

    def draw(self, generator: np.random.Generator, count: int) -> NDArray[np.int64]:
        variance = math.log1p(self.variation**2)
        drawn = generator.lognormal(math.log(self.mean) - variance / 2, math.sqrt(variance), size=count)
        return np.clip(np.rint(drawn), 1, INT32_MAX).astype(np.int64)
