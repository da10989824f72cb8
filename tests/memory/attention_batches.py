"""Batches for decode attention: a poisoned pool, scattered blocks, and the result by the definition in float64.

Everything that no query may see is NaN, as far as the format has one: unused blocks, the rest of last blocks, tokens
outside [start, length), other layers. Tables end in ids of other blocks, or of none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pagedkv.dtypes import DTYPES
from pagedkv.kernels.number_formats import to_float32
from pagedkv.kv_layout import KVLayout

Doubles = npt.NDArray[np.float64]
Raw = npt.NDArray[Any]


@dataclass(frozen=True)
class Span:
    """The tokens [start, length) of one sequence."""

    length: int
    start: int = 0


@dataclass(frozen=True)
class Rules:
    """Query tokens a sequence, what each of them sees, and what becomes of scores."""

    tokens: int = 1
    causal: bool = True
    window: int | None = None
    softcap: float | None = None

    @property
    def options(self) -> dict[str, Any]:
        """As decode_attention takes them."""
        return {"causal": self.causal, "window": self.window, "softcap": self.softcap}

    def seen(self, span: Span) -> list[range]:
        """The positions that each query sees, by the words of decode_attention."""
        places = [span.length - self.tokens + j for j in range(self.tokens)]
        ends = [place + 1 if self.causal else span.length for place in places]
        firsts = [span.start if self.window is None else max(span.start, p - self.window + 1) for p in places]
        return [range(max(first, 0), max(end, 0)) for first, end in zip(firsts, ends, strict=True)]


PLAIN = Rules()


class AttentionBatch:
    """A batch over one layer: `memory` (uint8, the pool's bytes), `table`, `lengths`, `starts`, `queries`, `expected`.

    `blocks` blocks of `layout`; the table is `spare` columns wider than the longest sequence needs. dtype: of queries.
    With one query token a sequence `queries` and `expected` have no dimension of tokens.
    """

    def __init__(
        self,
        layout: KVLayout,
        spans: list[Span],
        ratio: int,
        *,
        seed: int,
        dtype: str | None = None,
        spare: int = 2,
        rules: Rules = PLAIN,
    ) -> None:
        self.layout, self.spans, self.ratio, self.rules = layout, spans, ratio, rules
        self.dtype = dtype or layout.dtype
        # Of 8-bit layouts without scales of their own: what stored numbers are multiplied by.
        eight_bits = layout.element.itemsize == 1 and not layout.scales
        self.factors = (0.25, 0.5) if eight_bits else (1.0, 1.0)
        self._random = np.random.default_rng(seed)
        size = layout.block_size
        needed = [-(-span.length // size) for span in spans]
        self.width = max([*needed, 0]) + spare
        self.blocks = sum(needed) + 3
        self.layer = int(self._random.integers(layout.num_layers))
        self.memory = np.full(layout.pool_bytes(self.blocks), 0xFF, np.uint8)
        free = iter(self._random.permutation(self.blocks).tolist())
        stale = self._random.choice([-1, 0, self.blocks - 1, self.blocks, 2**31 - 1], (len(spans), self.width))
        self.table = stale.astype(np.int32)
        for row, count in zip(self.table, needed, strict=True):
            row[:count] = [next(free) for _ in range(count)]
        self.lengths = np.array([span.length for span in spans], np.int32)
        self.starts = np.array([span.start for span in spans], np.int32)
        tokens = () if rules.tokens == 1 else (rules.tokens,)
        heads = layout.num_kv_heads * ratio
        self.queries = self._numbers((len(spans), *tokens, heads, layout.head_dim), self.dtype)
        self.expected = np.zeros((*self.queries.shape[:-1], layout.value_dim))
        for i, span in enumerate(spans):
            self._fill(i, span)

    def pool_array(self, part: str) -> Raw:
        """A part of this batch's layer in `memory`, [blocks, block_size, heads, dim], by the words of kv_layout.py."""
        layout, blocks = self.layout, self.blocks
        names = [p.name for p in layout.parts]
        sizes = [layout.block_size * p.token_bytes for p in layout.parts]
        place, before = names.index(part), sum(sizes[: names.index(part)])
        if layout.order == "block":
            per_block = self.memory.reshape(blocks, layout.num_layers, sum(sizes))
            found = per_block[:, self.layer, before : before + sizes[place]]
        else:
            of_layer = self.memory.reshape(layout.num_layers, blocks * sum(sizes))[self.layer]
            found = of_layer[blocks * before : blocks * (before + sizes[place])].reshape(blocks, sizes[place])
        kind = layout.parts[place]
        numbers = found.view(np.dtype(kind.dtype.storage))
        if layout.kv_layout == "NHD":
            return numbers.reshape(blocks, layout.block_size, kind.heads, kind.dim)
        return numbers.reshape(blocks, kind.heads, layout.block_size, kind.dim).swapaxes(1, 2)

    def _fill(self, i: int, span: Span) -> None:
        seen = self.rules.seen(span)
        positions = np.array(sorted({position for some in seen for position in some}), np.int64)
        if not len(positions):
            return
        blocks, offsets = self.table[i][positions // self.layout.block_size], positions % self.layout.block_size
        parts = (self._written(part, blocks, offsets) for part in ("k", "v"))
        k, v = (numbers * factor for numbers, factor in zip(parts, self.factors, strict=True))
        queries = to_float32(self.queries[i], self.dtype).astype(np.float64).reshape(len(seen), -1, k.shape[2])
        expected = self.expected[i].reshape(len(seen), -1, v.shape[2])
        for some, of_token, result in zip(seen, queries, expected, strict=True):
            chosen = np.isin(positions, some)
            for head, query in enumerate(of_token):
                if chosen.any():
                    result[head] = self._attend(query, k[chosen, head // self.ratio], v[chosen, head // self.ratio])

    def _attend(self, query: Doubles, k: Doubles, v: Doubles) -> Doubles:
        scores = k @ query / np.sqrt(len(query))
        if self.rules.softcap is not None:
            scores = self.rules.softcap * np.tanh(scores / self.rules.softcap)
        weights = np.exp(scores - scores.max())
        found: Doubles = weights / weights.sum() @ v
        return found

    def _written(self, part: str, blocks: Raw, offsets: Raw) -> Doubles:
        """Random numbers in the places of tokens; what they mean, [tokens, heads, dim]."""
        layout = self.layout
        target = self.pool_array(part)
        stored = self._numbers((len(blocks), *target.shape[2:]), layout.dtype)
        target[blocks, offsets] = stored
        meant = to_float32(stored, layout.dtype).astype(np.float64)
        if layout.scales:
            scales = self._random.uniform(0.1, 0.4, (len(blocks), layout.num_kv_heads, 1)).astype(np.float32)
            self.pool_array(f"{part}_scale")[blocks, offsets] = scales
            meant *= scales
        return meant

    def _numbers(self, shape: tuple[int, ...], dtype: str) -> Raw:
        if DTYPES[dtype].itemsize == 1:  # codes of small numbers: large ones would make every weight 0 or 1
            codes = np.arange(256).astype(np.uint8).view(DTYPES[dtype].storage)
            small = codes[np.abs(to_float32(codes, dtype)) <= 8]
            return self._random.choice(small, shape)
        numbers = self._random.standard_normal(shape).astype(np.float32)
        if dtype == "bfloat16":
            return (numbers.view(np.uint32) >> 16).astype(np.uint16)
        return numbers.astype(dtype)


def error_of(found: Raw, dtype: str, expected: Doubles) -> float:
    """Largest difference of a head's result from what was expected, as a share of that result's norm; inf for NaN."""
    got = to_float32(found, dtype).astype(np.float64)
    if not np.isfinite(got).all():
        return float("inf")
    empty = ~expected.any(axis=-1)
    if got[empty].any():
        return float("inf")
    norms = np.linalg.norm(expected, axis=-1)
    differences = np.linalg.norm(got - expected, axis=-1)
    return float((differences[~empty] / norms[~empty]).max(initial=0))
