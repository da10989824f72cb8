"""Decode attention, on a GPU. See `kernels.KVKernels`.

One launch, or two where a batch is cut into shares: the second merges what the first left in a workspace. Each
stream has a workspace of its own, made at its first use and never freed while the process lives, so neither later calls
nor graphs allocate. A graph uses that of the stream it was captured on: graphs of one stream run one after another.
"""

from __future__ import annotations

import struct
import threading
from dataclasses import dataclass
from functools import cached_property
from math import e, log2

import numpy as np
import numpy.typing as npt

from pagedkv.backends.cuda_driver import Driver
from pagedkv.backends.cuda_launch import U64, KernelStore, LoadedKernel
from pagedkv.backends.cuda_memory import CudaBuffer, allocate
from pagedkv.backends.cuda_stream import CudaStream, as_stream
from pagedkv.backends.cuda_tensor_maps import MAPS, TensorMaps
from pagedkv.kernels import DecodeBatch, PoolMemory, TableMemory
from pagedkv.kernels.attention_shapes import (
    MARKS_BYTES,
    SHORT,
    SMALLEST_SHARE,
    THREADS,
    WORKSPACE_BYTES,
    DecodeShape,
    DecodeVariant,
    check_decode_shape,
    check_decode_sizes,
    decode_variant,
    division,
    shares_for,
)
from pagedkv.kernels.attention_tensor import WARPS
from pagedkv.kv_layout import KVLayout, token_and_head_axes
from pagedkv.streams import Stream

_BATCH = struct.Struct("4Q6Q4QQ3qQ3qQq2Q3Q7Q4f3Q")  # batch_t of decode_pieces.cuh
_KERNEL = (U64 * (_BATCH.size // 8),)
_Maps = tuple[npt.NDArray[np.uint64], ...]
# CU_STREAM_PER_THREAD: one handle, a stream of its own for each thread.
_PER_THREAD = 2
# Batches and tables of ever new sizes would fill the host's memory; a plan made again compiles and allocates nothing.
_MOST_PLANS = 4096


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
    """What one launch needs, loaded and allocated. merge_groups: CTAs that merge a share's queries of a KV head."""

    kernel: LoadedKernel
    variant: DecodeVariant
    shares: int
    merge: LoadedKernel | None = None
    merge_groups: int = 0
    workspace: int = 0


class _Decode:
    """Kernels and workspaces of one device."""

    def __init__(self, driver: Driver, store: KernelStore) -> None:
        self._driver, self._store = driver, store
        self._processors = driver.attribute("MULTIPROCESSOR_COUNT")
        self._capability = driver.compute_capability
        # Of launches that overlap, graphs know since CUDA 12.3.
        self._overlaps = self._capability >= (9, 0) and int(driver.call("cuDriverGetVersion")) >= 12030
        self._maps = TensorMaps(driver)
        self._workspaces: dict[tuple[int, int], CudaBuffer] = {}
        self._plans: dict[tuple[object, ...], _Plan] = {}
        self._lock = threading.Lock()
        self._launching = threading.Lock()

    def prepared(self, memory: PoolMemory, batch: DecodeBatch, stream: CudaStream) -> tuple[_Plan, _Maps]:
        """The plan of a launch, and the maps it takes. Raises InvalidArgumentError for a shape without a kernel."""
        layout = memory.layout
        assert isinstance(layout, KVLayout)
        table = batch.table
        width = table.width if isinstance(table, TableMemory) else table.shape[1]
        owner = (stream.handle, threading.get_ident() if stream.handle == _PER_THREAD else 0)
        capped = batch.softcap > 0
        key = (layout, batch.queries.shape, batch.queries.dtype, capped, width, owner)
        with self._lock:
            if (plan := self._plans.get(key)) is None:
                count, tokens, heads, dim = batch.queries.shape
                formats = (batch.queries.dtype, layout.dtype, layout.scales)
                ratio = heads // layout.num_kv_heads
                short = width * layout.block_size <= SHORT
                shape = DecodeShape(dim, ratio, layout.block_size, *formats, tokens, capped, layout.alignment, short)
                check_decode_shape(shape, layout.value_dim)
                check_decode_sizes(count, width * layout.block_size, layout.block_bytes)
                plan = self._plan(shape, layout.num_kv_heads, (count, width), owner)
                if len(self._plans) >= _MOST_PLANS:
                    self._plans.clear()  # kernels and workspaces are kept elsewhere
                self._plans[key] = plan
        return plan, (self._maps.of(memory, batch.layer),) if plan.variant.shared else ()

    def run(self, memory: PoolMemory, batch: DecodeBatch, stream: CudaStream) -> None:
        plan, maps = self.prepared(memory, batch, stream)
        count, tokens, heads, dim = batch.queries.shape
        if not count:
            return
        layout = memory.layout
        assert isinstance(layout, KVLayout)
        shares, variant = plan.shares, plan.variant
        lines = 2 * shares * tokens * heads
        sums = plan.workspace + MARKS_BYTES
        workspace = (sums, sums + lines * dim * 4, plan.workspace) if plan.merge else (0, 0, 0)
        argument = np.frombuffer(_packed(memory, batch, workspace), np.uint64)
        # Pools of one device may be used by threads of their own, on one stream: nobody's pieces come between these.
        with self._launching, self._driver.current():
            grid = (layout.num_kv_heads, shares, variant.column_groups)
            plan.kernel.launch(grid, THREADS, stream, argument, *maps, shared=variant.shared)
            if plan.merge is not None:
                launch = plan.merge.launch_early if self._overlaps else plan.merge.launch
                launch((layout.num_kv_heads, shares, plan.merge_groups), THREADS, stream, argument)

    def _plan(self, shape: DecodeShape, kv_heads: int, sizes: tuple[int, int], owner: tuple[int, int]) -> _Plan:
        count, width = sizes
        variant = decode_variant(shape, self._capability)
        slots = self._processors * variant.ctas // variant.column_groups
        shares = shares_for(shape, kv_heads, count, width * shape.block_size, slots)
        with self._driver.current(), _Unchecked(self._driver):
            types = (*_KERNEL, MAPS) if variant.shared else _KERNEL
            kernel = self._store.get(variant.kernel, types, **variant.macros)
            if variant.shared:
                kernel.reserve(variant.shared)
            if shares == 1:
                return _Plan(kernel, variant, shares)
            macros = {name: variant.macros[name] for name in ("HEAD_DIM", "QUERY")}
            merge = self._store.get("decode_merge", _KERNEL, **macros)
            if owner not in self._workspaces:
                self._workspaces[owner] = allocate(self._driver, WORKSPACE_BYTES)
            merge_groups = -(-shape.columns // WARPS)  # a warp merges one
            return _Plan(kernel, variant, shares, merge, merge_groups, self._workspaces[owner].address)


class _Unchecked:
    """Loading and allocating are forbidden while this thread's streams are captured, unless it says that it knows."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._mode = driver.module.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED

    def __enter__(self) -> None:
        self._mode = self._driver.call("cuThreadExchangeStreamCaptureMode", self._mode)

    def __exit__(self, *_: object) -> None:
        self._driver.call("cuThreadExchangeStreamCaptureMode", self._mode)


def _packed(memory: PoolMemory, batch: DecodeBatch, workspace: tuple[int, int, int]) -> bytes:
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
        *queries.strides[:3],
        out.address,
        *out.strides[:3],
        *cells,
        *(0 if place is None else place.address for place in numbers),
        *queries.shape[:2],
        layout.num_kv_heads,
        queries.shape[2] // layout.num_kv_heads,
        batch.causal,
        batch.window,
        SMALLEST_SHARE,
        batch.softmax_scale * batch.k_scale * (1 / batch.softcap if batch.softcap else log2(e)),
        batch.v_scale,
        batch.softcap * log2(e),
        0.0,
        *workspace,
    )


def _parts(memory: PoolMemory, layout: KVLayout, layer: int) -> tuple[list[int], list[int]]:
    """Addresses of K, V and scales; strides in bytes of block, token and head, of K and of its scales. 0: none."""
    addresses: list[int] = []
    strides: list[int] = []
    token, head = token_and_head_axes(layout)
    for kind in ("", "_scale"):
        if kind and not layout.scales:
            return [*addresses, 0, 0], [*strides, 0, 0, 0]
        views = [layout.part_view(layer, part + kind, memory.num_blocks) for part in ("k", "v")]
        addresses += [memory.buffer.address + view.offset for view in views]
        strides += [views[0].strides[axis] for axis in (0, token, head)]
    return addresses, strides
