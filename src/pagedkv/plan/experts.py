"""The part of a model's parameters that lies in experts, of which a token uses a few."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pagedkv.arguments import INT32_MAX, whole_number
from pagedkv.errors import InvalidArgumentError

_COUNTS = ("num_local_experts", "num_experts", "n_routed_experts")
# Family: its field of an expert's inner size, the field of leading layers without experts, and how many experts a token
# uses where a config leaves that to Transformers' class.
_FAMILIES: dict[str, tuple[str, str | None, int | None]] = {
    "mixtral": ("intermediate_size", None, 2),
    "gpt_oss": ("intermediate_size", None, 4),
    "qwen3_moe": ("moe_intermediate_size", None, 8),
    "deepseek_v2": ("moe_intermediate_size", "first_k_dense_replace", None),
    "deepseek_v3": ("moe_intermediate_size", "first_k_dense_replace", 8),
}


@dataclass(frozen=True, slots=True)
class Experts:
    """parameters: of all routed experts of all layers; share: the part of them that one token uses."""

    parameters: int
    share: float


def experts_of(fields: Mapping[str, Any], layers: int) -> Experts | None:
    """Return the experts of a language model; None if it has none. An expert is three matrices, gate, up and down.

    Raises InvalidArgumentError for a family whose experts are not known here, and a field that makes no sense. Pure.
    """
    found = next((name for name in _COUNTS if fields.get(name)), None)
    if found is None:
        return None
    kind = fields.get("model_type")
    if kind not in _FAMILIES:
        raise InvalidArgumentError(
            f"a {kind!r} model has {fields[found]} experts; how large they are is known of {', '.join(_FAMILIES)} only"
        )
    inner, dense, usual = _FAMILIES[kind]
    count, hidden = _number(fields, found), _number(fields, "hidden_size")
    used = _number({"num_experts_per_tok": usual, **fields}, "num_experts_per_tok")
    if used > count:
        raise InvalidArgumentError(f"num_experts_per_tok is {used} and there are {count} experts; correct the config")
    without = whole_number(fields.get(dense, 0), dense, maximum=layers) if dense is not None else 0
    return Experts((layers - without) * count * 3 * hidden * _number(fields, inner), used / count)


def _number(fields: Mapping[str, Any], name: str) -> int:
    value = fields.get(name)
    if value is None:
        raise InvalidArgumentError(f"the config has no {name}; a step-time model needs it")
    return whole_number(value, name, minimum=1, maximum=INT32_MAX)
