"""Reading a Hugging Face config.json: how many layers, KV heads and elements a head a model has.

Work in progress: see read_shape.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any


@dataclass(frozen=True, slots=True)
class ModelShape:
    """What a layout needs of a model, for one tensor-parallel rank. v_head_dim is 0 for a latent layout."""

    num_layers: int
    num_kv_heads: int
    head_dim: int
    v_head_dim: int
    dtype: str


def read_shape(config: str | PathLike[str] | Mapping[str, Any], tensor_parallel: int = 1) -> ModelShape:
    """The shape that a config.json describes."""
    raise NotImplementedError
