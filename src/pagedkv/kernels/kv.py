"""The kernels that know keys and values: writing a step's into the pool, reading them back, decode attention.

The pool's layout is a KVLayout. The caller (pool_kv.py, pool_attention.py) has checked shapes, types and strides.
A slot outside the pool is skipped, an entry of a table outside it is not followed: nothing else is touched or read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from pagedkv.kernels.memory import Place, PoolMemory, StridedPlace
from pagedkv.streams import Buffer, Stream


@dataclass(frozen=True, slots=True)
class TokenKV:
    """K and V of n tokens of one layer and their slots.

    k: [n, heads, head_dim], v: [n, heads, v_head_dim] (None in a latent layout): float32, float16 or bfloat16.
    slots: int64 [n], one below 0 or beyond the pool is skipped. In 8-bit layouts without scales of their own, the
    stored number is value / scale: k_scale and v_scale, 1.0 elsewhere.
    """

    layer: int
    k: StridedPlace
    v: StridedPlace | None
    slots: Place
    k_scale: float = 1.0
    v_scale: float = 1.0


@dataclass(frozen=True, slots=True)
class DecodeBatch:
    """One query token for each of n sequences, over one layer.

    queries: [n, q_heads, head_dim]; out: [n, q_heads, v_head_dim] of the same dtype; q_heads is a multiple of the KV
    heads, head h reads KV head h // (q_heads / kv_heads). A query attends to tokens starts[i] up to lengths[i], not
    included (int32 [n]; no starts: from 0); where there is none the result is zeros.
    table: int32 [rows, width]; row i of it belongs to query i, or row rows[i] where `rows` (int32 [n]) is given.
    splits: pieces that a sequence is cut into; workspace: their results, float32.
    """

    layer: int
    queries: StridedPlace
    table: StridedPlace
    rows: Place | None
    lengths: Place
    starts: Place | None
    out: StridedPlace
    softmax_scale: float
    k_scale: float = 1.0
    v_scale: float = 1.0
    splits: int = 1
    workspace: Buffer | None = None


class KVKernels(Protocol):
    """Every method puts its work on `stream` and returns; BackendError if that fails."""

    def write_kv(self, memory: PoolMemory, tokens: TokenKV, stream: Stream) -> None:
        """Write K and V of each token into its slot, converted to the layout's format."""

    def gather_kv(self, memory: PoolMemory, tokens: TokenKV, stream: Stream) -> None:
        """Read K and V of each slot into tokens.k and tokens.v, converted; a skipped slot leaves zeros."""

    def decode_attention(self, memory: PoolMemory, batch: DecodeBatch, stream: Stream) -> None:
        """softmax(q K^T * softmax_scale) V for each query over its sequence's tokens."""
