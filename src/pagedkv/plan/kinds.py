"""Bytes of a token in each kind of layer, and what sequences need where windows are kept in mind."""

from __future__ import annotations

from dataclasses import dataclass

from pagedkv.kv_layout import KVLayout
from pagedkv.model_config import ModelShape

FULL, SLIDING, LATENT = "full attention", "sliding window", "latent"


@dataclass(frozen=True, slots=True)
class LayerKind:
    """`layers` layers of a kind; token_bytes: of one token in all of them, on one rank.

    window: tokens that they attend to; None: all of them, or not told.
    """

    kind: str
    layers: int
    token_bytes: int
    window: int | None = None


def layer_kinds(layout: KVLayout, shape: ModelShape, window: int | None) -> tuple[LayerKind, ...]:
    """Return the kinds of layers of a model, those without a window first. window: tokens, None: not told. Pure."""
    each = layout.token_bytes // layout.num_layers
    rest = shape.num_layers - shape.sliding_layers
    kind = FULL if layout.value_dim else LATENT
    counted = ((kind, rest, None), (SLIDING, shape.sliding_layers, window))
    return tuple(LayerKind(name, layers, layers * each, size) for name, layers, size in counted if layers)


def blocks_of(length: int, block_size: int) -> int:
    """Blocks of a sequence of `length` tokens."""
    return -(-length // block_size)


def window_blocks(length: int, block_size: int, window: int | None) -> int:
    """Blocks that the last `window` tokens of a sequence of up to `length` tokens touch, wherever they begin."""
    whole = blocks_of(length, block_size)
    return whole if window is None else min(whole, blocks_of(window - 1, block_size) + 1)


def sequence_bytes(kinds: tuple[LayerKind, ...], length: int, block_size: int) -> int:
    """Bytes of a sequence in a pool that drops what is out of every layer's window. Ours keeps all of it."""
    return sum(one.token_bytes * block_size * window_blocks(length, block_size, one.window) for one in kinds)
