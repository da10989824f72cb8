"""Decode attention, on a GPU. See `kernels.KVKernels`.

One launch, or two where sequences are cut into pieces: the second merges what the first left in a workspace. Each
stream has a workspace of its own, made at its first use and never freed while the process lives, so neither later calls
nor graphs allocate. A graph uses that of the stream it was captured on: graphs of one stream run one after another.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from dataclasses import dataclass
from functools import cached_property
from math import e, log2

import numpy as np

from pagedkv.backends.cuda_driver import Driver
from pagedkv.backends.cuda_launch import POINTER, U32, U64, KernelStore, LoadedKernel
from pagedkv.backends.cuda_memory import CudaBuffer, allocate
from pagedkv.backends.cuda_stream import CudaStream, as_stream
from pagedkv.kernels import DecodeBatch, PoolMemory, TableMemory
from pagedkv.kernels.attention_shapes import (
    MOST_LINES,
    SMALLEST_PIECE,
    THREADS,
    WORKSPACE_BYTES,
    DecodeShape,
    check_decode_shape,
    decode_variant,
    division,
    pieces_for,
)
from pagedkv.kv_layout import KVLayout
from pagedkv.streams import Stream

_BATCH = struct.Struct("4Q6Q4QQ2qQ2qQq2Q3Q3Q2d2Q")  # batch_t of decode_pieces.cuh
_KERNEL = (U64 * (_BATCH.size // 8),)
_I64 = ctypes.c_int64
# CU_STREAM_PER_THREAD: one handle, a stream of its own for each thread.
_PER_THREAD = 2
_MERGE = (POINTER, POINTER, U32, U32, POINTER, _I64, _I64, ctypes.c_float)


class CudaAttention:
    """See `pagedkv.kernels.KVKernels`."""

    _driver: Driver
    store: KernelStore

    def prepare_attention(self, memory: PoolMemory, batch: DecodeBatch, stream: Stream) -> None:
        self._decode.prepared(memory, batch, as_stream(self._driver, stream))

    def decode_attention(self, memory: PoolMemory, batch: DecodeBatch, stream: Stream) -> None:
        self._decode.run(memory, batch, as_stream(self._driver, stream))

    @cached_property
    def _decode(self) -> _Decode:
        return _Decode(self._driver, self.store)


@dataclass(frozen=True, slots=True)
class _Plan:
    """What one launch needs, loaded and allocated."""

    kernel: LoadedKernel
    head_groups: int
    pieces: int = 1
    merge: LoadedKernel | None = None
    workspace: int = 0


class _Decode:
    """Kernels and workspaces of one device."""

    def __init__(self, driver: Driver, store: KernelStore) -> None:
        self._driver, self._store = driver, store
        self._processors = driver.attribute("MULTIPROCESSOR_COUNT")
        self._capability = driver.compute_capability
        self._workspaces: dict[tuple[int, int], CudaBuffer] = {}
        self._plans: dict[tuple[object, ...], _Plan] = {}
        self._lock = threading.Lock()

    def prepared(self, memory: PoolMemory, batch: DecodeBatch, stream: CudaStream) -> _Plan:
        """The plan of a launch. Raises InvalidArgumentError for a shape without a kernel."""
        layout = memory.layout
        assert isinstance(layout, KVLayout)
        count, heads, dim = batch.queries.shape
        table = batch.table
        width = table.width if isinstance(table, TableMemory) else table.shape[1]
        owner = (stream.handle, threading.get_ident() if stream.handle == _PER_THREAD else 0)
        key = (layout, count, heads, batch.queries.dtype, width, owner)
        with self._lock:
            if (plan := self._plans.get(key)) is None:
                ratio = heads // layout.num_kv_heads
                shape = DecodeShape(dim, ratio, layout.block_size, batch.queries.dtype, layout.dtype, layout.scales)
                check_decode_shape(shape, layout.value_dim)
                plan = self._plans[key] = self._plan(shape, (count, heads, width), layout.num_kv_heads, owner)
            return plan

    def run(self, memory: PoolMemory, batch: DecodeBatch, stream: CudaStream) -> None:
        plan = self.prepared(memory, batch, stream)
        count, heads, dim = batch.queries.shape
        if not count:
            return
        layout = memory.layout
        assert isinstance(layout, KVLayout)
        weights = plan.workspace + MOST_LINES * dim * 4
        argument = np.frombuffer(_packed(memory, batch, (plan.workspace, weights)), np.uint64)
        with self._driver.current():
            plan.kernel.launch((count * layout.num_kv_heads, plan.pieces, plan.head_groups), THREADS, stream, argument)
            if plan.merge is not None:
                out = batch.out
                where = (out.address, *out.strides[:2], batch.v_scale)
                plan.merge.launch(
                    (count * heads, 1, 1), dim, stream, plan.workspace, weights, plan.pieces, heads, *where
                )

    def _plan(self, shape: DecodeShape, sizes: tuple[int, int, int], kv_heads: int, owner: tuple[int, int]) -> _Plan:
        count, heads, width = sizes
        variant = decode_variant(shape, self._capability)
        slots = self._processors * variant.ctas
        items, tokens = count * kv_heads * variant.head_groups, width * shape.block_size
        pieces = pieces_for(items, count * heads, tokens, slots) if count else 1
        with self._driver.current(), _Unchecked(self._driver):
            kernel = self._store.get(variant.kernel, _KERNEL, **variant.macros)
            if pieces == 1:
                return _Plan(kernel, variant.head_groups)
            macros = {name: variant.macros[name] for name in ("HEAD_DIM", "QUERY")}
            merge = self._store.get("decode_merge", _MERGE, **macros)
            if owner not in self._workspaces:
                self._workspaces[owner] = allocate(self._driver, WORKSPACE_BYTES)
            return _Plan(kernel, variant.head_groups, pieces, merge, self._workspaces[owner].address)


class _Unchecked:
    """Loading and allocating are forbidden while this thread's streams are captured, unless it says that it knows."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._mode = driver.module.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED

    def __enter__(self) -> None:
        self._mode = self._driver.call("cuThreadExchangeStreamCaptureMode", self._mode)

    def __exit__(self, *_: object) -> None:
        self._driver.call("cuThreadExchangeStreamCaptureMode", self._mode)


def _packed(memory: PoolMemory, batch: DecodeBatch, workspace: tuple[int, int]) -> bytes:
    layout = memory.layout
    assert isinstance(layout, KVLayout)
    table, queries, out = batch.table, batch.queries, batch.out
    if isinstance(table, TableMemory):
        cells: tuple[int, ...] = (table.buffer.address, table.width, table.rows, table.width)
    else:
        cells = (table.address, table.strides[0], *table.shape)
    addresses, strides = _parts(memory, layout, batch.layer)
    numbers = (batch.rows, batch.lengths, batch.starts)
    return _BATCH.pack(
        *addresses,
        *strides,
        memory.num_blocks,
        layout.block_size,
        *division(layout.block_size),
        queries.address,
        *queries.strides[:2],
        out.address,
        *out.strides[:2],
        *cells,
        *(0 if place is None else place.address for place in numbers),
        layout.num_kv_heads,
        queries.shape[1] // layout.num_kv_heads,
        SMALLEST_PIECE,
        batch.softmax_scale * batch.k_scale * log2(e),
        batch.v_scale,
        *workspace,
    )


def _parts(memory: PoolMemory, layout: KVLayout, layer: int) -> tuple[list[int], list[int]]:
    """Addresses of K, V and scales; strides in bytes of block, token and head, of K and of its scales. 0: none."""
    addresses: list[int] = []
    strides: list[int] = []
    token, head = (1, 2) if layout.kv_layout == "NHD" else (2, 1)
    for kind in ("", "_scale"):
        if kind and not layout.scales:
            return [*addresses, 0, 0], [*strides, 0, 0, 0]
        views = [layout.part_view(layer, part + kind, memory.num_blocks) for part in ("k", "v")]
        addresses += [memory.buffer.address + view.offset for view in views]
        strides += [views[0].strides[axis] for axis in (0, token, head)]
    return addresses, strides
