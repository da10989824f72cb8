"""How many steps a run takes at least: whoever samples a run need not begin with more moments than it will keep."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pagedkv.simulate.workload import Workload


def least_steps(workload: Workload, *, blocks: int, block_size: int, watermark: int, max_seqs: int | None) -> int:
    """Return a lower bound of the counted steps in which single sequences that share nothing all run to their ends.

    A request of p + o tokens is stored in o steps at least, with p, p + 1, ... p + o - 1 tokens; a step stores no more
    than the pool holds, and runs no more than max_seqs. Those that could not fit an idle pool do not run. Pure.
    """
    prompt, output = workload.prompt_tokens, workload.output_tokens
    runs = prompt + output - 1 <= (blocks - watermark) * block_size
    prompt, output = prompt[runs].astype(np.float64), output[runs].astype(np.float64)
    # Floats: a product of two lengths may pass 64 bits in the sum; a rounding error of 1e-12 would still be a bound.
    stored = float((prompt * output + output * (output - 1) / 2).sum())
    bounds = [stored / (blocks * block_size) * (1 - 1e-9), float(output.max(initial=0))]
    if max_seqs is not None:
        bounds.append(float(output.sum()) / max_seqs * (1 - 1e-9))
    return int(max(bounds))
