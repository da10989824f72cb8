"""How many steps a run takes at least: whoever samples a run need not begin with more moments than it will keep."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pagedkv.simulate.workload import Workload


def least_steps(workload: Workload, *, pool_tokens: int, longest: int, max_seqs: int | None) -> int:
    """Return a lower bound of the counted steps in which single sequences that share nothing all run to their ends.

    A request of p + o tokens is stored in o steps at least, with p, p + 1, ... p + o - 1 tokens; a step stores no more
    than pool_tokens, and runs no more than max_seqs. Those that would store more than `longest` are rejected. Pure.
    """
    prompt, output = workload.prompt_tokens, workload.output_tokens
    runs = prompt + output - 1 <= longest
    prompt, output = prompt[runs].astype(np.float64), output[runs].astype(np.float64)
    # Floats: the sum of products may pass 64 bits. A bound must not be rounded up.
    stored = float((prompt * output + output * (output - 1) / 2).sum())
    bounds = [stored / pool_tokens * (1 - 1e-9), float(output.max(initial=0))]
    if max_seqs is not None:
        bounds.append(float(output.sum()) / max_seqs * (1 - 1e-9))
    return int(max(bounds))
