"""Keys and values of one layer as tensors of any framework, in place."""

from __future__ import annotations

from pagedkv.pool.pool_bytes import PoolBytes


class PoolViews(PoolBytes):
    """A PoolBytes whose layers can be had as tensors. See `DevicePool`."""
