"""Tensor maps: how the bulk copy engine of compute capability 9.0 and later finds K and V of a layer in a pool.

A map is 128 opaque bytes that the driver fills in (`cuTensorMapEncodeTiled`, since CUDA 12.0); K's and V's are one
argument of a kernel. The driver is called through its own address of that function: it wants a map to begin at a
multiple of 64 bytes (CUDA driver API reference), which cuda-bindings does not see to.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from pagedkv.backends.cuda_driver import Driver, driver_error
from pagedkv.backends.cuda_launch import U64
from pagedkv.kernels import PoolMemory
from pagedkv.kernels.attention_tensor import TILE
from pagedkv.kv_layout import KVLayout, token_and_head_axes

_NAME, _SINCE = "cuTensorMapEncodeTiled", 12000
_MAP_BYTES, _ALIGNMENT = 128, 128
MAPS = U64 * (2 * _MAP_BYTES // 8)
_POINTER, _ENUM = ctypes.c_void_p, ctypes.c_int
# (map, type, rank, address, sizes, steps in bytes, box, element strides, interleave, swizzle, promotion, fill)
ENCODE = ctypes.CFUNCTYPE(_ENUM, _POINTER, _ENUM, ctypes.c_uint32, *[_POINTER] * 5, *[_ENUM] * 4)
# Of a box's innermost side: the engine turns units of 16 bytes within so many.
_LINE = 128
_MOST = 4096  # pools and layers come and go; a map made again is the same


class TensorMaps:
    """The maps of one device's pools. May be used by several threads."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._lock = threading.Lock()
        self._made: dict[tuple[object, ...], npt.NDArray[np.uint64]] = {}

    def of(self, memory: PoolMemory, layer: int) -> npt.NDArray[np.uint64]:
        """Maps of K and V of a layer, uint64[32]; boxes of 128 bytes of each of 16 tokens of a head.

        Raises BackendError where the driver refuses one. Nothing is put on a stream.
        """
        layout = memory.layout
        assert isinstance(layout, KVLayout)
        key = (memory.buffer.address, memory.num_blocks, layout, layer)
        with self._lock:
            if (found := self._made.get(key)) is None:
                if len(self._made) >= _MOST:
                    self._made.clear()
                raw = b"".join(self._encoded(memory, layout, layer, part) for part in ("k", "v"))
                found = self._made[key] = np.frombuffer(raw, np.uint64)
            return found

    def _encoded(self, memory: PoolMemory, layout: KVLayout, layer: int, part: str) -> bytes:
        module, size = self._driver.module, layout.element.itemsize
        view = layout.part_view(layer, part, memory.num_blocks)
        token, head = token_and_head_axes(layout)
        kinds = module.CUtensorMapDataType
        ways = (
            module.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            module.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
            module.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
            module.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
        room = ctypes.create_string_buffer(_MAP_BYTES + _ALIGNMENT)
        place = -(-ctypes.addressof(room) // _ALIGNMENT) * _ALIGNMENT
        code = self._encode(
            place,
            int(kinds.CU_TENSOR_MAP_DATA_TYPE_UINT8 if size == 1 else kinds.CU_TENSOR_MAP_DATA_TYPE_UINT16),
            4,
            memory.buffer.address + view.offset,
            _array(ctypes.c_uint64, (layout.head_dim, layout.block_size, layout.num_kv_heads, memory.num_blocks)),
            _array(ctypes.c_uint64, [view.strides[axis] for axis in (token, head, 0)]),
            _array(ctypes.c_uint32, (_LINE // size, TILE, 1, 1)),
            _array(ctypes.c_uint32, (1, 1, 1, 1)),
            *map(int, ways),
        )
        if code:
            raise driver_error(module, module.CUresult(code), _NAME)
        return ctypes.string_at(place, _MAP_BYTES)

    @cached_property
    def _encode(self) -> Callable[..., int]:
        """The driver's function. Raises BackendError where it has none."""
        address, _ = self._driver.call("cuGetProcAddress", _NAME.encode(), _SINCE, 0)
        return ENCODE(int(address))


def _array(kind: Any, numbers: Sequence[int]) -> Any:
    return (kind * len(numbers))(*numbers)
