"""Variants of the kernels that write and gather keys and values: every pair of formats, widths, layouts, sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product

from pagedkv import KVLayout
from pagedkv.dtypes import COMPUTE_DTYPES, DTYPES
from pagedkv.kernels.kv_shapes import gather_shape, scaled_shape, write_shape

Macros = Mapping[str, int]
_FEW, _MIDDLE, _MANY = 3, 4096, 100_000
_WIDE, _NARROW = (16, 16), (4, 2)


def kv_variants() -> dict[str, list[Macros]]:
    """By kernel."""
    found: dict[str, list[Macros]] = {"write_kv": [], "gather_kv": [], "write_kv_scaled": []}
    for layout, given, aligned, count in _shapes():
        small = layout.element.itemsize == 1
        for many in (count, _MIDDLE):
            found["write_kv"].append(write_shape(layout, given, many, aligned, scaled=small).macros)
        found["gather_kv"].append(gather_shape(layout, given, count, aligned, scaled=small).macros)
        if small:
            own = replace(layout, scales=True, block_size=4 * layout.block_size)
            found["gather_kv"].append(gather_shape(own, given, count, aligned, scaled=False).macros)
            found["write_kv_scaled"].append(scaled_shape(own, given, count, aligned).macros)
    return found


def _shapes() -> Iterator[tuple[KVLayout, str, tuple[int, int], int]]:
    for stored, given in product(DTYPES, COMPUTE_DTYPES):
        yield KVLayout(2, 8, 128, stored, 16), given, _WIDE, _MANY
    yield KVLayout(2, 8, 128, "bfloat16", 16, kv_layout="HND"), "bfloat16", _WIDE, _MANY
    yield KVLayout(2, 3, 80, "float8_e4m3fn", 12, kv_layout="HND", v_head_dim=36), "float32", _WIDE, _FEW
    yield KVLayout(2, 5, 17, "float8_e5m2", 7), "float16", _WIDE, _MANY
    yield KVLayout(2, 5, 64, "int8", 256), "bfloat16", _NARROW, _FEW
    yield KVLayout.latent(2, 576, "float8_e4m3fn", 64), "bfloat16", _WIDE, _MANY
    yield KVLayout.latent(2, 1, "float16", 1), "float16", _WIDE, _FEW
