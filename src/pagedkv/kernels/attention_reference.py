"""Decode attention in NumPy, float64 inside: what every backend must compute, for any head size and ratio.

One sequence at a time, all heads of it at once: only tokens that it attends to are gathered, so whatever lies in
padding, in stale slots or beyond a length never enters an operation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pagedkv.arguments import IntArray
from pagedkv.kernels.table_reference import Int32s

Doubles = npt.NDArray[np.float64]
Decode = Callable[[npt.NDArray[Any]], Doubles]


@dataclass(frozen=True, slots=True)
class StoredPart:
    """K or V of one layer over all blocks, NHD or HND as it lies, and how its numbers are read.

    numbers: [blocks, block_size, heads, dim], or heads before block_size where `heads_first`; scales: the same without
    the last dimension, or one number for all.
    """

    numbers: npt.NDArray[Any]
    scales: npt.NDArray[Any] | float
    heads_first: bool
    decode: Decode

    @property
    def blocks(self) -> int:
        """Blocks of the pool."""
        return int(self.numbers.shape[0])

    @property
    def block_size(self) -> int:
        """Tokens of a block."""
        return int(self.numbers.shape[2 if self.heads_first else 1])

    def tokens(self, blocks: IntArray, offsets: IntArray) -> Doubles:
        """[heads, tokens, dim] of the tokens at these places."""
        if self.heads_first:
            found = self.decode(self.numbers[blocks, :, offsets])
            scales = self.scales if isinstance(self.scales, float) else self.scales[blocks, :, offsets, None]
        else:
            found = self.decode(self.numbers[blocks, offsets])
            scales = self.scales if isinstance(self.scales, float) else self.scales[blocks, offsets, :, None]
        return (found * scales).transpose(1, 0, 2)


def decode_attention(
    k: StoredPart, v: StoredPart, queries: Doubles, tables: Int32s, ranges: IntArray, softmax_scale: float
) -> Doubles:
    """softmax(q K^T * softmax_scale) V, [n, q_heads, v_dim], of queries [n, q_heads, dim].

    tables: int32 [n, width]; ranges: int64 [n, 2], the tokens [first, end) that each query attends to. What the table
    does not reach, and tokens of a block outside the pool, are left out; where nothing is left the result is zeros.
    """
    out = np.zeros((*queries.shape[:2], v.numbers.shape[3]))
    for i, (first, end) in enumerate(ranges):
        blocks, offsets = _places(tables[i], int(first), int(end), k)
        if len(blocks):
            out[i] = _attend(queries[i], k.tokens(blocks, offsets), v.tokens(blocks, offsets), softmax_scale)
    return out


def row_tables(table: Int32s, rows: Int32s | None) -> Int32s:
    """The table of each query, int32 [n, width]: row i, or row rows[i]; a row outside the table has no blocks."""
    if rows is None:
        return table
    inside = (rows >= 0) & (rows < len(table))
    found = np.full((len(rows), table.shape[1]), -1, np.int32)
    found[inside] = table[rows[inside]]
    return found


def _places(entries: Int32s, first: int, end: int, part: StoredPart) -> tuple[IntArray, IntArray]:
    positions = np.arange(max(first, 0), min(end, len(entries) * part.block_size), dtype=np.int64)
    blocks = entries[positions // part.block_size].astype(np.int64)
    inside = (blocks >= 0) & (blocks < part.blocks)
    return blocks[inside], positions[inside] % part.block_size


def _attend(queries: Doubles, keys: Doubles, values: Doubles, softmax_scale: float) -> Doubles:
    """[q_heads, v_dim] of one sequence."""
    heads, _, dim = keys.shape
    grouped = queries.reshape(heads, -1, dim)
    with np.errstate(over="ignore", invalid="ignore"):  # stored infinities go through as they would on a device
        scores = grouped @ keys.transpose(0, 2, 1) * softmax_scale
        weights = np.exp(scores - scores.max(axis=2, keepdims=True))
        weights /= weights.sum(axis=2, keepdims=True)
        found: Doubles = weights @ values
    return found.reshape(len(queries), values.shape[2])
