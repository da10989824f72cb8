"""Writing and gathering keys and values, on a GPU: one launch. See `kernels.KVKernels`.

With slots on the device nothing is uploaded and nothing allocated, so the launch may be captured into a graph and
replayed with other slots and tensors' contents.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from math import gcd

from pagedkv.backends.cuda_driver import Driver
from pagedkv.backends.cuda_launch import POINTER, U32, U64, KernelStore
from pagedkv.backends.cuda_staging import Staging
from pagedkv.backends.cuda_stream import CudaStream, as_stream
from pagedkv.dtypes import DTYPES
from pagedkv.kernels import PoolMemory, StridedPlace, TokenKV
from pagedkv.kernels.kv_shapes import KVShape, gather_shape, scaled_shape, write_shape
from pagedkv.kernels.launch_shapes import WIDEST_ACCESS
from pagedkv.kv_layout import KVLayout
from pagedkv.streams import Stream

_I64 = ctypes.c_int64
_TYPES = (*(POINTER, POINTER, U64, U64) * 2, POINTER, POINTER, *(_I64,) * 4, POINTER, U64, U64, U32, U32, U32)


class CudaKV:
    """See `pagedkv.kernels.KVKernels`."""

    _driver: Driver
    store: KernelStore
    staging: Staging

    def write_kv(self, memory: PoolMemory, tokens: TokenKV, stream: Stream) -> None:
        layout, given, alignment = _given(memory, tokens)
        count = tokens.k.shape[0]
        if layout.scales:
            self._launch("write_kv_scaled", scaled_shape(layout, given, count, alignment), memory, tokens, stream)
        else:
            shape = write_shape(layout, given, count, alignment, scaled=_scaled(tokens))
            self._launch("write_kv", shape, memory, tokens, stream)

    def gather_kv(self, memory: PoolMemory, tokens: TokenKV, stream: Stream) -> None:
        layout, given, alignment = _given(memory, tokens)
        shape = gather_shape(layout, given, tokens.k.shape[0], alignment, scaled=_scaled(tokens))
        self._launch("gather_kv", shape, memory, tokens, stream)

    def _launch(self, name: str, shape: KVShape, memory: PoolMemory, tokens: TokenKV, stream: Stream) -> None:
        if not tokens.k.shape[0]:
            return
        queue = as_stream(self._driver, stream)
        with self._driver.current():
            if tokens.slots.array is None:
                self._launch_on(name, shape, memory, tokens, tokens.slots.address, queue)
                return
            with self.staging.uploaded((tokens.slots.array,), queue) as (slots,):
                self._launch_on(name, shape, memory, tokens, slots, queue)

    def _launch_on(
        self, name: str, shape: KVShape, memory: PoolMemory, tokens: TokenKV, slots: int, queue: CudaStream
    ) -> None:
        assert isinstance(memory.layout, KVLayout)
        offsets, strides, total = _pool_places(memory.layout, memory.num_blocks, tokens.layer)
        base, v = memory.buffer.address, tokens.v
        self.store.get(name, _TYPES, **shape.macros).launch(
            (shape.k_ctas + shape.v_ctas, 1, 1),
            shape.threads,
            queue,
            *(base + offset for offset in offsets[:2]),
            *strides[:2],
            *(base + offset for offset in offsets[2:]),
            *strides[2:],
            tokens.k.address,
            v.address if v else 0,
            *_byte_strides(tokens.k),
            *(_byte_strides(v) if v else (0, 0)),
            slots,
            tokens.k.shape[0],
            total,
            shape.k_ctas,
            _bits(tokens.k_scale),
            _bits(tokens.v_scale),
        )


def _given(memory: PoolMemory, tokens: TokenKV) -> tuple[KVLayout, str, tuple[int, int]]:
    """The layout, the tokens' format, and what divides the addresses and strides of tokens and pool."""
    layout = memory.layout
    assert isinstance(layout, KVLayout)
    tensors = [tensor for tensor in (tokens.k, tokens.v) if tensor is not None]
    given = gcd(WIDEST_ACCESS, *(part for tensor in tensors for part in (tensor.address, *_byte_strides(tensor))))
    offsets, strides, _ = _pool_places(layout, memory.num_blocks, tokens.layer)
    stored = gcd(WIDEST_ACCESS, memory.buffer.address, *offsets[:2], *strides[:2])
    return layout, tokens.k.dtype, (given, stored)


def _scaled(tokens: TokenKV) -> bool:
    return (tokens.k_scale, tokens.v_scale) != (1.0, 1.0)


@lru_cache(maxsize=4096)
def _pool_places(layout: KVLayout, num_blocks: int, layer: int) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Of K, V and their scales (0: not there): offsets from the pool's start, strides of blocks, in bytes. Then
    how many slots the pool has.
    """
    views = {part.name: layout.part_view(layer, part.name, num_blocks) for part in layout.parts}
    found = [views.get(name) for name in ("k", "v", "k_scale", "v_scale")]
    offsets = tuple(view.offset if view else 0 for view in found)
    strides = tuple(view.strides[0] if view else 0 for view in found)
    return offsets, strides, num_blocks * layout.block_size


def _byte_strides(tensor: StridedPlace) -> tuple[int, int]:
    """Of tokens and heads; what has one of them only takes no step."""
    size = DTYPES[tensor.dtype].itemsize
    token, head = (step * size if n > 1 else 0 for step, n in zip(tensor.strides[:2], tensor.shape[:2], strict=True))
    return token, head


def _bits(scale: float) -> int:
    return int.from_bytes(ctypes.c_float(scale), "little")
