"""Tensor maps: how the bulk copy engine of compute capability 9.0 and later finds K and V of a layer in a pool.

A map is 128 opaque bytes that the driver fills in (`cuTensorMapEncodeTiled`); K's and V's are one argument of a kernel.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt

from pagedkv.backends.cuda_driver import Driver
from pagedkv.backends.cuda_launch import U64
from pagedkv.kernels import PoolMemory
from pagedkv.kernels.attention_tensor import TILE
from pagedkv.kv_layout import KVLayout

_MAP_BYTES = 128
MAPS = U64 * (2 * _MAP_BYTES // 8)
# Of a box's innermost side: the engine turns units of 16 bytes within so many.
_LINE = 128
_MOST = 4096  # pools and layers come and go; a map made again is the same


class TensorMaps:
    """The maps of one device's pools."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._made: dict[tuple[object, ...], npt.NDArray[np.uint64]] = {}

    def of(self, memory: PoolMemory, layer: int) -> npt.NDArray[np.uint64]:
        """Maps of K and V of a layer, uint64[32]; boxes of 128 bytes of each of 16 tokens of a head."""
        layout = memory.layout
        assert isinstance(layout, KVLayout)
        key = (memory.buffer.address, memory.num_blocks, layout, layer)
        if (found := self._made.get(key)) is None:
            if len(self._made) >= _MOST:
                self._made.clear()
            raw = b"".join(self._encoded(memory, layout, layer, part) for part in ("k", "v"))
            found = self._made[key] = np.frombuffer(raw, np.uint64)
        return found

    def _encoded(self, memory: PoolMemory, layout: KVLayout, layer: int, part: str) -> bytes:
        module, size = self._driver.module, layout.element.itemsize
        view = layout.part_view(layer, part, memory.num_blocks)
        token, head = (1, 2) if layout.kv_layout == "NHD" else (2, 1)
        sizes = (layout.head_dim, layout.block_size, layout.num_kv_heads, memory.num_blocks)
        steps = (view.strides[token], view.strides[head], view.strides[0])
        kinds, wide, narrow = module.CUtensorMapDataType, module.cuuint64_t, module.cuuint32_t
        made: Any = self._driver.call(
            "cuTensorMapEncodeTiled",
            kinds.CU_TENSOR_MAP_DATA_TYPE_UINT8 if size == 1 else kinds.CU_TENSOR_MAP_DATA_TYPE_UINT16,
            4,
            memory.buffer.address + view.offset,
            [wide(size) for size in sizes],
            [wide(step) for step in steps],
            [narrow(side) for side in (_LINE // size, TILE, 1, 1)],
            [narrow(1)] * 4,
            module.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            module.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
            module.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
            module.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
        return ctypes.string_at(made.getPtr(), _MAP_BYTES)
