"""Writing a step's keys and values into the pool, and reading a sequence's back."""

from __future__ import annotations

from pagedkv.pool.pool_views import PoolViews
from pagedkv.streams import AnyStream


class PoolKV(PoolViews):
    """A PoolViews that keys and values are written to and read from. See `DevicePool`."""

    def write_kv(
        self,
        layer: int,
        k: object,
        v: object,
        slots: object,
        *,
        scales: tuple[float, float] = (1.0, 1.0),
        stream: AnyStream | None = None,
    ) -> None:
        """Scatter K and V of a step's tokens into their slots."""
        raise NotImplementedError

    def gather_kv(
        self,
        layer: int,
        slots: object,
        k: object,
        v: object,
        *,
        scales: tuple[float, float] = (1.0, 1.0),
        stream: AnyStream | None = None,
    ) -> None:
        """Gather K and V of slots into contiguous tensors."""
        raise NotImplementedError
