"""The macros of every kernel of decode attention that a launch can choose."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

from pagedkv.dtypes import COMPUTE_DTYPES, DTYPES
from pagedkv.kernels.attention_shapes import HEAD_DIMS, DecodeShape, decode_variant

Macros = Mapping[str, int]
# On older ones the same shapes take another kernel.
FIRST_ARCHITECTURE = {"decode_tensor": "sm_80"}
# (query heads a KV head, query tokens): one for each number of columns, groups and CTAs that a launch chooses.
_COLUMNS = [(1, 1), (2, 1), (4, 1), (8, 1), (16, 1), (2, 4), (4, 4), (8, 4)]
_STORED = [(name, scales) for name, kind in DTYPES.items() if kind.itemsize == 1 for scales in (False, True)]


def attention_variants() -> dict[str, list[Macros]]:
    """By kernel."""
    found: dict[str, dict[tuple[tuple[str, int], ...], Macros]] = {"decode_attention": {}, "decode_tensor": {}}
    for shape, capability in product(_shapes(), [(7, 5), (8, 0), (9, 0)]):
        variant = decode_variant(shape, capability)
        found[variant.kernel][tuple(variant.macros.items())] = variant.macros
    merges = [{"HEAD_DIM": dim, "QUERY": DTYPES[name].number} for dim in HEAD_DIMS for name in COMPUTE_DTYPES]
    return {"decode_merge": [*merges], **{name: list(several.values()) for name, several in found.items()}}


def _shapes() -> Iterator[DecodeShape]:
    # All pairs of formats, block sizes and caps are more compilations than they are worth. What costs registers is here
    # with every number of columns: bfloat16, tiles across blocks with 8 bits and scales; the rest with one.
    for dim, (ratio, tokens) in product(HEAD_DIMS, _COLUMNS):
        capped = ratio == 2
        yield DecodeShape(dim, ratio, 16, "bfloat16", "bfloat16", False, tokens, capped)
        yield DecodeShape(dim, ratio, 16, "float32", "float32", False, tokens, capped)
        if ratio in (1, 16) or tokens > 1:
            yield DecodeShape(dim, ratio, 24, "bfloat16", "bfloat16", False, tokens, capped)
            yield DecodeShape(dim, ratio, 24, "bfloat16", "float8_e4m3fn", True, tokens, capped)
        if (dim == 128 and ratio * tokens >= 16) or (dim, ratio) == (256, 16):
            yield DecodeShape(dim, ratio, 16, "float16" if ratio == 16 else "bfloat16", "float8_e4m3fn", True, tokens)
        if (dim, ratio, tokens) == (128, 8, 1):
            yield DecodeShape(dim, ratio, 16, "float16", "float16", False)
            yield DecodeShape(dim, ratio, 16, "bfloat16", "bfloat16", False, short=True)
            yield from (DecodeShape(dim, ratio, 16, "bfloat16", name, scales) for name, scales in _STORED)
            yield from (DecodeShape(dim, ratio, 16, name, "float8_e4m3fn", True) for name in COMPUTE_DTYPES)
