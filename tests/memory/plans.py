"""Step plans written by hand, good and bad ones: what a pool reads of a plan, without a manager."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class HandMadePlan:
    step: int
    copies: npt.NDArray[np.int32]
    updates: npt.NDArray[np.int32]


def plan(
    step: int, *, copies: Sequence[tuple[int, int]] = (), updates: Sequence[tuple[int, int, int]] = ()
) -> HandMadePlan:
    """copies: (source, destination); updates: (row, column, block)."""
    return HandMadePlan(
        step,
        np.array(copies, np.int32).reshape(-1, 2),
        np.array(updates, np.int32).reshape(-1, 3),
    )
