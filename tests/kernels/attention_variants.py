"""The macros of every kernel of decode attention that a launch can choose."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

from pagedkv.dtypes import COMPUTE_DTYPES, DTYPES
from pagedkv.kernels.attention_shapes import HEAD_DIMS, MOST_HEADS, DecodeShape, decode_variant

Macros = Mapping[str, int]
# On older ones the same shapes take another kernel.
FIRST_ARCHITECTURE = {"decode_tensor": "sm_80"}
_STORED = [(name, scales) for name, kind in DTYPES.items() if kind.itemsize == 1 for scales in (False, True)]
_RATIOS = [1, 2, 4, 8, MOST_HEADS]


def attention_variants() -> dict[str, list[Macros]]:
    """By kernel."""
    found: dict[str, dict[tuple[tuple[str, int], ...], Macros]] = {"decode_attention": {}, "decode_tensor": {}}
    for shape, capability in product(_shapes(), [(7, 5), (9, 0)]):
        variant = decode_variant(shape, capability)
        found[variant.kernel][tuple(variant.macros.items())] = variant.macros
    merges = [{"HEAD_DIM": dim, "QUERY": DTYPES[name].number} for dim in HEAD_DIMS for name in COMPUTE_DTYPES]
    return {"decode_merge": [*merges], **{name: list(several.values()) for name, several in found.items()}}


def _shapes() -> Iterator[DecodeShape]:
    for dim, ratio in product(HEAD_DIMS, _RATIOS):
        for name in COMPUTE_DTYPES:
            yield from (DecodeShape(dim, ratio, size, name, name, False) for size in (8, 16))
        # A format costs registers where it is converted: queries once, K and V for each token. All pairs of formats are
        # more compilations than they are worth; each is here once, with the most heads.
        yield DecodeShape(dim, ratio, 16, "bfloat16", "float8_e4m3fn", True)
        if ratio == 8:
            yield from (DecodeShape(dim, ratio, 16, "bfloat16", name, scales) for name, scales in _STORED)
            yield from (DecodeShape(dim, ratio, 16, name, "float8_e4m3fn", True) for name in COMPUTE_DTYPES)
