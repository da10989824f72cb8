"""Rows of a pool that lie in pieces: where they are, as a NumPy twin and as a kernel sees them.

A row is a block or a token. A token's bytes are its share of each of its block's pieces: the pieces of tokens follow
each other inside a block's piece, so they lie as those of blocks do, only smaller, and a slot is the index.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from pagedkv.errors import InvalidArgumentError
from pagedkv.layout import Extents

MOST_PARTS = 4
# struct pieces_t of the kernels: sizes[4], starts[4], group_stride, groups, parts; 64 bits each.
PIECES_WORDS = 2 * MOST_PARTS + 3

Bytes = npt.NDArray[np.uint8]


def row_extents(extents: Extents, rows_a_block: int) -> Extents:
    """Where rows lie of which `rows_a_block` make a block: 1 for blocks, the block size for tokens."""
    return replace(extents, sizes=tuple(size // rows_a_block for size in extents.sizes))


def row_views(pool: Bytes, extents: Extents, count: int) -> list[Bytes]:
    """One view uint8 [count, bytes] for each piece of `count` rows of a pool, in the order of a row's bytes."""
    return [pool[start : start + count * size].reshape(count, size) for start, size in extents.pieces(0)]


@lru_cache(maxsize=64)
def pieces_argument(extents: Extents) -> npt.NDArray[np.uint64]:
    """`struct pieces_t`, uint64 [11], read-only. Raises InvalidArgumentError for more sizes than it has room for."""
    parts = len(extents.sizes)
    if parts > MOST_PARTS:
        raise InvalidArgumentError(f"blocks lie in pieces of {parts} sizes; kernels take up to {MOST_PARTS}")
    unused = (0,) * (MOST_PARTS - parts)
    words = (*extents.sizes, *unused, *extents.starts, *unused, extents.group_stride, extents.groups, parts)
    result = np.array(words, np.uint64)
    result.flags.writeable = False
    return result
