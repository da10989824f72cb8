"""Decode attention over the pool's blocks."""

from __future__ import annotations

from pagedkv.pool.pool_kv import PoolKV
from pagedkv.streams import AnyStream


class PoolAttention(PoolKV):
    """A PoolKV that attention reads. See `DevicePool`."""

    def decode_attention(
        self,
        layer: int,
        queries: object,
        lengths: object,
        out: object,
        *,
        rows: object = None,
        table: object = None,
        starts: object = None,
        softmax_scale: float | None = None,
        scales: tuple[float, float] = (1.0, 1.0),
        stream: AnyStream | None = None,
    ) -> None:
        """Attention of one query token a sequence over the tokens that its block table names."""
        raise NotImplementedError
