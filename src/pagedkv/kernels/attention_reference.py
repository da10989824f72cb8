"""Decode attention in NumPy, float64 inside: what every backend must compute, for any head size and ratio.

One sequence at a time, all heads of it at once: only tokens that it attends to are gathered, so whatever lies in
padding, in stale slots or beyond a length never enters an operation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pagedkv.arguments import IntArray
from pagedkv.kernels.kv_reference import LayerPart
from pagedkv.kernels.number_formats import to_float32
from pagedkv.kernels.table_reference import Int32s

Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class StoredKV:
    """K and V of one layer, and what their numbers are multiplied by in an 8-bit layout without scales of its own."""

    k: LayerPart
    v: LayerPart
    k_scale: float = 1.0
    v_scale: float = 1.0


@dataclass(frozen=True, slots=True)
class Scores:
    """What becomes of q K^T before the softmax: times `scale`, then capped at `softcap` (0: not) by a tanh."""

    scale: float
    softcap: float = 0.0

    def of(self, products: Doubles) -> Doubles:
        """The scores of these products."""
        scaled: Doubles = products * self.scale
        return self.softcap * np.tanh(scaled / self.softcap) if self.softcap else scaled


def decode_attention(stored: StoredKV, queries: Doubles, tables: Int32s, ranges: IntArray, scores: Scores) -> Doubles:
    """softmax(scores of q K^T) V, [n, t, q_heads, v_dim], of queries [n, t, q_heads, dim].

    tables: int32 [n, width]; ranges: int64 [n, t, 2], the tokens [first, end) that each query attends to. What the
    table does not reach, and tokens of a block outside the pool, are left out; where nothing is left the result is
    zeros.
    """
    out = np.zeros((*queries.shape[:3], stored.v.numbers.shape[3]))
    for i, j in np.ndindex(ranges.shape[:2]):
        first, end = map(int, ranges[i, j])
        blocks, offsets = _places(tables[i], first, end, stored.k)
        if len(blocks):
            keys = _tokens(stored.k, stored.k_scale, blocks, offsets)
            values = _tokens(stored.v, stored.v_scale, blocks, offsets)
            out[i, j] = _attend(queries[i, j], keys, values, scores)
    return out


def query_ranges(lengths: Int32s, starts: Int32s | None, tokens: int, *, causal: bool, window: int) -> IntArray:
    """The tokens [first, end) that each of the last `tokens` tokens of sequences attends to, int64 [n, tokens, 2].

    causal: none behind itself; window: of what is up to itself the last `window`, 0: all.
    """
    behind = np.arange(tokens - 1, -1, -1)
    own = lengths.astype(np.int64)[:, None] - behind  # one past each query's own position
    firsts = np.zeros_like(own) if starts is None else np.repeat(starts.astype(np.int64)[:, None], tokens, axis=1)
    if window:
        firsts = np.maximum(firsts, own - window)
    return np.stack((firsts, own if causal else own + behind), axis=2)


def row_tables(table: Int32s, rows: Int32s | None) -> Int32s:
    """The table of each query, int32 [n, width]: row i, or row rows[i]; a row outside the table has no blocks."""
    if rows is None:
        return table
    inside = (rows >= 0) & (rows < len(table))
    found = np.full((len(rows), table.shape[1]), -1, np.int32)
    found[inside] = table[rows[inside]]
    return found


def _places(entries: Int32s, first: int, end: int, part: LayerPart) -> tuple[IntArray, IntArray]:
    blocks, block_size = part.numbers.shape[:2]
    positions = np.arange(max(first, 0), min(end, len(entries) * block_size), dtype=np.int64)
    found = entries[positions // block_size].astype(np.int64)
    inside = (found >= 0) & (found < blocks)
    return found[inside], positions[inside] % block_size


def _tokens(part: LayerPart, scale: float, blocks: IntArray, offsets: IntArray) -> Doubles:
    """[heads, tokens, dim] of the tokens at these places."""
    numbers = to_float32(part.numbers[blocks, offsets], part.dtype).astype(np.float64)
    scales = scale if part.scales is None else part.scales[blocks, offsets][..., None]
    found: Doubles = numbers * scales
    return found.transpose(1, 0, 2)


def _attend(queries: Doubles, keys: Doubles, values: Doubles, rule: Scores) -> Doubles:
    """[q_heads, v_dim] of one query token."""
    heads, _, dim = keys.shape
    grouped = queries.reshape(heads, -1, dim)
    with np.errstate(over="ignore", invalid="ignore"):  # stored infinities go through as they would on a device
        scores = rule.of(grouped @ keys.transpose(0, 2, 1))
        weights = np.exp(scores - scores.max(axis=2, keepdims=True))
        weights /= weights.sum(axis=2, keepdims=True)
        found: Doubles = weights @ values
    return found.reshape(len(queries), values.shape[2])
