"""The kernels that know keys and values: writing a step's into the pool, reading them back, decode attention.

The pool's layout is a KVLayout. The caller (pool_kv.py, pool_attention.py) has checked shapes, types and strides.
A slot outside the pool is skipped, an entry of a table outside it is not followed: nothing else is touched or read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from pagedkv.kernels.memory import Place, PoolMemory, StridedPlace, TableMemory
from pagedkv.streams import Stream


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
    """The last t tokens of each of n sequences as queries, over one layer.

    queries: [n, t, q_heads, head_dim]; out: [n, t, q_heads, v_head_dim] of the same dtype; q_heads is a multiple of the
    KV heads, head h reads KV head h // (q_heads / kv_heads). A query attends to tokens starts[i] up to lengths[i], not
    included (int32 [n]; no starts: from 0). Query j is token lengths[i] - t + j: with `causal` it sees none behind
    itself, with a `window` above 0 only the last `window` up to itself. Where there is none the result is zeros.
    softcap: scores become softcap * tanh(score / softcap); 0: they stay.
    table: the caller's, int32 [n, width], row i for query i; or the pool's own tables, row rows[i] (int32 [n]). A row
    outside the tables has no tokens, and no length reaches beyond width * block_size.
    k_scale, v_scale: of 8-bit layouts without scales of their own, 1.0 elsewhere.
    """

    layer: int
    queries: StridedPlace
    table: StridedPlace | TableMemory
    rows: StridedPlace | None
    lengths: StridedPlace
    starts: StridedPlace | None
    out: StridedPlace
    softmax_scale: float
    k_scale: float = 1.0
    v_scale: float = 1.0
    causal: bool = True
    window: int = 0
    softcap: float = 0.0


class KVKernels(Protocol):
    """Every method puts its work on `stream` and returns; BackendError if that fails."""

    def write_kv(self, memory: PoolMemory, tokens: TokenKV, stream: Stream) -> None:
        """Write K and V of each token into its slot, converted to the layout's format."""

    def gather_kv(self, memory: PoolMemory, tokens: TokenKV, stream: Stream) -> None:
        """Read K and V of each slot into tokens.k and tokens.v, converted; a skipped slot leaves zeros."""

    def prepare_attention(self, memory: PoolMemory, batch: DecodeBatch, stream: Stream) -> None:
        """Make ready what decode_attention needs; puts nothing on the stream. Raises InvalidArgumentError for a shape
        that this device has no kernel for, BackendError when it cannot be compiled or memory is short.
        """

    def decode_attention(self, memory: PoolMemory, batch: DecodeBatch, stream: Stream) -> None:
        """softmax(q K^T * softmax_scale) V for each query over its sequence's tokens."""
