"""How many parameters a Llama-like model has, exactly, from its config alone.

Embedding V x H, once more for an untied output layer, the last norm H, and in every layer: queries and outputs
2 x H x heads x D, keys and values 2 x H x KV heads x D, two norms 2 x H, biases where the family has them, and the
gate, up and down projections 3 x H x I, of a mixture of experts E times, with its router H x E.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pagedkv.arguments import INT32_MAX, whole_number
from pagedkv.errors import InvalidArgumentError
from pagedkv.model_config import ModelShape

# Families whose every weight is in the formula; the rest have more (gates, extra norms, vision towers, ...).
COUNTED = ("llama", "mistral", "mixtral", "qwen2", "qwen3")


def count_parameters(fields: Mapping[str, Any], shape: ModelShape) -> int | None:
    """Return the number of parameters of a model, tied weights once; None where it cannot be told.

    fields: of its language model (`model_config.language_fields`); shape: of all its heads, on one rank. Raises
    InvalidArgumentError for a field that makes no sense. Pure.
    """
    kind = fields.get("model_type")
    needed = ("vocab_size", "hidden_size", "intermediate_size", "num_attention_heads")
    if kind not in COUNTED or any(fields.get(name) is None for name in needed):
        return None
    vocabulary, hidden, _, _ = (_number(fields, name) for name in needed)
    embeddings = vocabulary * hidden * (1 if _flag(fields, "tie_word_embeddings") else 2)
    return embeddings + hidden + shape.num_layers * (_attention(fields, shape) + _experts(fields) + 2 * hidden)


def _attention(fields: Mapping[str, Any], shape: ModelShape) -> int:
    kind, hidden = fields["model_type"], _number(fields, "hidden_size")
    queries, keys = _number(fields, "num_attention_heads") * shape.head_dim, shape.num_kv_heads * shape.head_dim
    weights = 2 * hidden * queries + 2 * hidden * keys
    if kind == "qwen2":
        return weights + queries + 2 * keys
    if kind in ("llama", "qwen3") and _flag(fields, "attention_bias"):
        weights += queries + 2 * keys + hidden
    return weights + (2 * shape.head_dim if kind == "qwen3" else 0)


def _experts(fields: Mapping[str, Any]) -> int:
    hidden, inner = _number(fields, "hidden_size"), _number(fields, "intermediate_size")
    dense = 3 * hidden * inner
    if fields["model_type"] == "mixtral":
        experts = whole_number(fields.get("num_local_experts", 8), "num_local_experts", minimum=1, maximum=INT32_MAX)
        return experts * (dense + hidden)
    return dense + (2 * inner + hidden if fields["model_type"] == "llama" and _flag(fields, "mlp_bias") else 0)


def _flag(fields: Mapping[str, Any], name: str) -> bool:
    value = fields.get(name)
    if value is not None and not isinstance(value, bool):
        raise InvalidArgumentError(f"{name} is {value!r}; give true or false")
    return bool(value)


def _number(fields: Mapping[str, Any], name: str) -> int:
    return whole_number(fields[name], name, minimum=1, maximum=INT32_MAX)
