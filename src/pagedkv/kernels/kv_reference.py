"""Writing and gathering keys and values in NumPy: the right bytes for every backend, and the host's own kernels.

`rows` is uint8, a pool's bytes from its first block on. Tokens are taken in pieces, so a temporary stays within a few
MiB however long the batch. A slot below 0 or beyond the pool is skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pagedkv.arguments import IntArray
from pagedkv.dtypes import DTYPES
from pagedkv.kernels.number_formats import Floats, Numbers, from_float32, to_float32
from pagedkv.kv_layout import KVLayout, PartView

Bytes = npt.NDArray[np.uint8]
_PIECE_ELEMENTS = 1 << 19


@dataclass(frozen=True, slots=True)
class LayerPart:
    """K or V ("k", "v") of one layer of a pool, token by token, and its scales where the layout has them.

    numbers: [blocks, block_size, heads, dim], scales: [blocks, block_size, heads]; both are views of the pool.
    """

    numbers: Numbers
    scales: Floats | None
    dtype: str

    @property
    def slots(self) -> int:
        """Slots of the pool."""
        blocks, block_size = self.numbers.shape[:2]
        return int(blocks * block_size)


def layer_part(rows: Bytes, layout: KVLayout, num_blocks: int, layer: int, name: str) -> LayerPart:
    """The part `name` of a layer in the bytes of a pool of `num_blocks` blocks."""
    numbers = _view(rows, layout, layout.part_view(layer, name, num_blocks))
    scales = _view(rows, layout, layout.part_view(layer, f"{name}_scale", num_blocks)) if layout.scales else None
    return LayerPart(numbers, scales, layout.dtype)


def write_part(part: LayerPart, numbers: Numbers, dtype: str, slots: IntArray, scale: float) -> None:
    """Write tokens [n, heads, dim] of format `dtype` into their slots. Of two tokens with one slot either may stay."""
    for piece in _pieces(numbers):
        places = slots[piece]
        inside = (places >= 0) & (places < part.slots)
        block, offset = np.divmod(places[inside], part.numbers.shape[1])
        given = numbers[piece][inside]
        if dtype == part.dtype:
            part.numbers[block, offset] = given
            continue
        values = to_float32(given, dtype)
        divisor: Any = np.float32(scale)
        if part.scales is not None:
            part.scales[block, offset] = own = token_scales(values, part.dtype)
            divisor = own[..., None]
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = values if part.scales is None and scale == 1 else values / divisor
            part.numbers[block, offset] = from_float32(scaled, part.dtype)


def gather_part(part: LayerPart, slots: IntArray, out: Numbers, dtype: str, scale: float) -> None:
    """Read slots into tokens [n, heads, dim] of format `dtype`; a skipped slot leaves zeros."""
    for piece in _pieces(out):
        places = slots[piece]
        inside = (places >= 0) & (places < part.slots)
        block, offset = np.divmod(places[inside], part.numbers.shape[1])
        found = part.numbers[block, offset]
        if dtype != part.dtype:
            values = to_float32(found, part.dtype)
            with np.errstate(over="ignore", invalid="ignore"):  # a stale slot may hold anything
                if part.scales is not None:
                    values = values * part.scales[block, offset][..., None]
                elif scale != 1:  # a product would change the bits of a NaN
                    values = values * np.float32(scale)
                found = from_float32(values, dtype)
        target = out[piece]
        target[~inside] = 0
        target[inside] = found


def token_scales(values: Floats, dtype: str) -> Floats:
    """One scale for each vector of the last dimension: its largest finite magnitude / the format's largest number.

    NaNs do not count, an infinity counts as float32's largest number; 1 where the scale would be 0.
    """
    finite = np.minimum(np.where(np.isnan(values), np.float32(0), np.abs(values)), np.finfo(np.float32).max)
    scales: Floats = finite.max(axis=-1) / np.float32(DTYPES[dtype].largest)
    return np.where(scales > 0, scales, np.float32(1))


def _view(rows: Bytes, layout: KVLayout, place: PartView) -> Any:
    array: Any = np.ndarray(place.shape, place.part.dtype.storage, rows, place.offset, place.strides)
    return array if layout.kv_layout == "NHD" else array.swapaxes(1, 2)


def _pieces(tokens: Numbers) -> Iterator[slice]:
    count, step = len(tokens), max(1, _PIECE_ELEMENTS // max(1, tokens[0].size if len(tokens) else 1))
    return (slice(start, start + step) for start in range(0, count, step))
