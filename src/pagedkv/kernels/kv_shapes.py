"""Which variant of write_kv, write_kv_scaled and gather_kv to launch, and over how many CTAs, from the sizes at hand.

Plain arithmetic, no device needed. The choices are measured on an H200 (bfloat16, 8 heads of 128, blocks of 16 anywhere
in a pool of 32 layers), as a share of one device-to-device copy of the same bytes. Few items are spread thin: at 256
tokens write_kv's 256 threads with one item each reach 91.5 %, with four 86 %. In between, four items a thread hide the
latency: 96 % at 4,096 tokens, one item 93 %. Many items are written by small CTAs, whose places in an SM are free the
sooner: at 65,536 tokens 93.9 % with 128 threads, 91.7 % with 256 and four items. gather_kv waits for its slots first;
two items a thread are best from 4,096 tokens on: 89.5, 93.8 and 95.8 % at 4,096, 16,384 and 65,536.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import gcd

from pagedkv.dtypes import DTYPES
from pagedkv.kernels.launch_shapes import WIDEST_ACCESS
from pagedkv.kv_layout import KVLayout

# Items (one load, one store) up to here, and the threads and items a thread for them.
_Choices = tuple[tuple[int, int, int], ...]
_WRITE: _Choices = ((1 << 17, 256, 1), (1 << 21, 256, 4), (1 << 62, 128, 1))
_GATHER: _Choices = ((1 << 18, 128, 1), (1 << 62, 64, 2))
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
def write_shape(layout: KVLayout, given: str, count: int, alignment: tuple[int, int], *, scaled: bool) -> KVShape:
    """write_kv of `count` tokens of format `given`.

    alignment: the largest power of two, 16 at most, that divides every address and stride, of the tokens and of the
    pool. scaled: values are divided by a scale of the whole layer. Modifies nothing.
    """
    return _shape(layout, given, count, _elements(layout, given, alignment), _WRITE, int(scaled))


@lru_cache(maxsize=1024)
def gather_shape(layout: KVLayout, given: str, count: int, alignment: tuple[int, int], *, scaled: bool) -> KVShape:
    """gather_kv of `count` tokens into format `given`. Arguments as write_shape."""
    scales = 2 if layout.scales else int(scaled)
    return _shape(layout, given, count, _elements(layout, given, alignment), _GATHER, scales)


@lru_cache(maxsize=1024)
def scaled_shape(layout: KVLayout, given: str, count: int, alignment: tuple[int, int]) -> KVShape:
    """write_kv_scaled of `count` tokens of format `given`. Arguments as write_shape."""
    elements = _elements(layout, given, alignment)
    of_head = max(layout.head_dim, layout.value_dim) // elements
    lanes = min(_MOST_LANES, 1 << (of_head - 1).bit_length())
    macros = {"THREADS": _SCALED_THREADS, "LANES": lanes, **_macros(layout, given, elements)}
    ctas = -(-count * layout.num_kv_heads // (_SCALED_THREADS // lanes))
    return KVShape(macros, _SCALED_THREADS, ctas, ctas if layout.value_dim else 0)


def _shape(layout: KVLayout, given: str, count: int, elements: int, choices: _Choices, scales: int) -> KVShape:
    items = [count * layout.num_kv_heads * dim // elements for dim in (layout.head_dim, layout.value_dim)]
    threads, unroll = next((threads, unroll) for most, threads, unroll in choices if sum(items) <= most)
    macros = {"THREADS": threads, "UNROLL": unroll, **_macros(layout, given, elements), "SCALES": scales}
    k_ctas, v_ctas = (-(-part // (threads * unroll)) for part in items)
    return KVShape(macros, threads, k_ctas, v_ctas)


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
