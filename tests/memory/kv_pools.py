"""Host pools for tests of keys and values: small layouts, bytes that are nobody's."""

from __future__ import annotations

from typing import Any

import numpy as np

from pagedkv import DevicePool, KVLayout

BLOCKS, LAYERS = 5, 3


def small_layout(**changes: Any) -> KVLayout:
    wanted: dict[str, Any] = {
        "num_layers": LAYERS, "num_kv_heads": 2, "head_dim": 8, "dtype": "bfloat16", "block_size": 4
    }  # fmt: skip
    return KVLayout(**{**wanted, **changes})


def filled(layout: KVLayout, **options: Any) -> tuple[DevicePool, np.ndarray]:
    """A pool of bytes that are nobody's, and a view of them."""
    pool = DevicePool(layout, BLOCKS, device="host", **options)
    view = pool.backend.host_view(pool._buffer)
    view[:] = np.random.default_rng(1).integers(0, 256, view.size)
    return pool, view
