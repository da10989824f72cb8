"""How many steps a run takes at least: whoever samples a run need not begin with more moments than it will keep."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


def least_steps(
    prompt: Integers, output: Integers, arrival: Integers, *, pool_tokens: int | None, max_seqs: int | None
) -> int:
    """Return a lower bound of the counted steps in which single sequences all run to their ends.

    arrival: the steps in which they come, in order. pool_tokens: tokens that the pool holds; None if sequences share
    any. A request of p + o tokens waits or runs in the o steps from its arrival on, at least; and it is stored in o
    steps with p, p + 1, ... p + o - 1 tokens, where a step stores no more than pool_tokens and runs no more than
    max_seqs. Pure.
    """
    if not len(output):
        return 0
    ends = np.maximum.accumulate(arrival + output)
    begins = np.maximum(arrival, np.concatenate([arrival[:1], ends[:-1]]))
    bounds = [float(np.maximum(ends - begins, 0).sum())]
    # Floats: the sum of products may pass 64 bits. A bound must not be rounded up.
    tokens, steps = prompt.astype(np.float64), output.astype(np.float64)
    if pool_tokens is not None:
        bounds.append(float((tokens * steps + steps * (steps - 1) / 2).sum()) / pool_tokens * (1 - 1e-9))
    if max_seqs is not None:
        bounds.append(float(steps.sum()) / max_seqs * (1 - 1e-9))
    return int(max(bounds))
