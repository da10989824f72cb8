"""The roofline of a step: no GPU can be faster than its arithmetic and its memory allow. Real steps take longer.

    linear layers: max(operations / peak, weights that are touched / bandwidth)
    attention:     max(operations / peak, keys and values that are read and written / bandwidth)

One after the other, so their sum. Left out: launches, sampling, communication between GPUs, caches; and the output
layer of prefilled tokens, of which an engine needs the last one's only.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any

from pagedkv.errors import InvalidArgumentError
from pagedkv.simulate.step_time.work import StepWork


@dataclass(frozen=True, slots=True)
class Roofline:
    """One GPU's share of a model, and the GPU.

    weight_bytes: read in every step; expert_bytes: of all experts, of which a token uses `expert_share` (0: no experts;
    tokens choose independently and evenly). token_operations: of the linear layers, a token; output_operations: of the
    output layer, a decoding sequence; pair_operations: of attention, a token and a token it attends to.
    kv_token_bytes: of one token, all layers.
    peak: operations/s; bandwidth: bytes/s. Errors: InvalidArgumentError.
    """

    weight_bytes: float
    token_operations: float
    pair_operations: float
    kv_token_bytes: float
    peak: float
    bandwidth: float
    expert_bytes: float = 0.0
    expert_share: float = 0.0
    output_operations: float = 0.0

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            positive = name in ("weight_bytes", "token_operations", "peak", "bandwidth")
            if not isfinite(value) or value < 0 or (positive and value == 0):
                raise InvalidArgumentError(f"{name} is {value}; give a number above 0")
        if self.expert_share > 1:
            raise InvalidArgumentError(f"expert_share is {self.expert_share}; give at most 1, all experts")

    def seconds(self, work: StepWork) -> float:
        """Return the least seconds of a step. Pure."""
        tokens = work.decode_sequences + work.prefill_tokens
        weights = self.weight_bytes
        if self.expert_bytes:
            weights += self.expert_bytes * (1.0 - (1.0 - self.expert_share) ** tokens)
        operations = tokens * self.token_operations + work.decode_sequences * self.output_operations
        linear = max(operations / self.peak, weights / self.bandwidth)
        pairs = work.decode_context + work.prefill_pairs
        moved = (work.context + tokens) * self.kv_token_bytes
        return linear + max(pairs * self.pair_operations / self.peak, moved / self.bandwidth)

    def described(self) -> dict[str, Any]:
        """Return what it was made of."""
        return {"kind": "roofline", **asdict(self)}
