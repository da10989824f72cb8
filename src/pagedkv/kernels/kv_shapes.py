"""Which variant of write_kv, write_kv_scaled and gather_kv to launch, and over how many CTAs, from the sizes at hand.

Plain arithmetic, no device needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import gcd

from pagedkv.dtypes import DTYPES
from pagedkv.kernels.launch_shapes import WIDEST_ACCESS
from pagedkv.kv_layout import KVLayout

# One item: ELEMENTS elements of a head. Few items are spread thin, many are taken several at a time.
_FEW_ITEMS = 1 << 17
_SCALED_THREADS = 256
_MOST_LANES = 32


@dataclass(frozen=True, slots=True)
class KVShape:
    """How to launch: macros, threads a CTA, CTAs of K and of V."""

    macros: Mapping[str, int]
    threads: int
    k_ctas: int
    v_ctas: int


@lru_cache(maxsize=1024)
def kv_shape(layout: KVLayout, given: str, count: int, alignment: tuple[int, int], scales: int) -> KVShape:
    """The shape for `count` tokens of format `given`, for write_kv and gather_kv.

    alignment: the largest power of two that divides every address and stride, of the tokens and of the pool. scales: as
    the macro SCALES. Modifies nothing.
    """
    elements = _elements(layout, given, alignment)
    items = [count * layout.num_kv_heads * dim // elements for dim in (layout.head_dim, layout.value_dim)]
    threads, unroll = (128, 1) if sum(items) <= _FEW_ITEMS else (256, 4)
    macros = {"THREADS": threads, "UNROLL": unroll, **_macros(layout, given, elements), "SCALES": scales}
    k_ctas, v_ctas = (-(-part // (threads * unroll)) for part in items)
    return KVShape(macros, threads, k_ctas, v_ctas)


@lru_cache(maxsize=1024)
def scaled_shape(layout: KVLayout, given: str, count: int, alignment: tuple[int, int]) -> KVShape:
    """The shape for `count` tokens of format `given`, for write_kv_scaled. Arguments as kv_shape."""
    elements = _elements(layout, given, alignment)
    of_head = max(layout.head_dim, layout.value_dim) // elements
    lanes = min(_MOST_LANES, 1 << (of_head - 1).bit_length())
    macros = {"THREADS": _SCALED_THREADS, "LANES": lanes, **_macros(layout, given, elements)}
    ctas = -(-count * layout.num_kv_heads // (_SCALED_THREADS // lanes))
    return KVShape(macros, _SCALED_THREADS, ctas, ctas if layout.value_dim else 0)


def _elements(layout: KVLayout, given: str, alignment: tuple[int, int]) -> int:
    """Elements of one access: a power of two that divides both head sizes, within 16 bytes and the alignments."""
    sizes = (DTYPES[given].itemsize, layout.element.itemsize)
    widths = (gcd(WIDEST_ACCESS, place) // size for place, size in zip(alignment, sizes, strict=True))
    dims = gcd(layout.head_dim, layout.value_dim)
    return min(*widths, dims & -dims)


def _macros(layout: KVLayout, given: str, elements: int) -> dict[str, int]:
    return {
        "GIVEN": DTYPES[given].number,
        "STORED": layout.element.number,
        "ELEMENTS": elements,
        "HEADS": layout.num_kv_heads,
        "K_DIM": layout.head_dim,
        "V_DIM": layout.value_dim,
        "BLOCK_SIZE": layout.block_size,
        "HND": int(layout.kv_layout == "HND"),
    }
