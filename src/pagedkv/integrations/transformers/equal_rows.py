"""Which rows of a batch hold the same keys and values, bit by bit.

`generate` repeats a prompt for every beam and every returned sequence before it runs the model. Equal tokens do not
always give equal bits: a matrix product may handle the last rows of a batch with other instructions. So the bits
themselves are compared, in every layer, and rows that differ in a single one are kept apart.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

_SAME_SIZE = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def equal_to_previous(k: torch.Tensor, v: torch.Tensor) -> list[bool]:
    """For each row of a batch (dimension 0), whether K and V are those of the row before; False for the first.

    Waits for the device once. Integers are compared: two NaNs may be equal, 0.0 and -0.0 are not.
    """
    same = _equal_neighbors(k) & _equal_neighbors(v)
    return [False, *same.tolist()]


def groups_of(previous: Sequence[int], same: Sequence[bool]) -> list[int]:
    """The first row of each row's group: rows that were in one group (`previous`) and are equal to the row before."""
    groups: list[int] = []
    for row, equal in enumerate(same):
        together = equal and row > 0 and previous[row] == previous[row - 1]
        groups.append(groups[-1] if together else row)
    return groups


def _equal_neighbors(states: torch.Tensor) -> torch.Tensor:
    bits = states.detach().view(_SAME_SIZE[states.element_size()])
    return (bits[1:] == bits[:-1]).flatten(1).all(dim=1)
