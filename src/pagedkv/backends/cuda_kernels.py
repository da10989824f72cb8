"""The CUDA backend's kernels: arguments through staging memory, then launches on the stream. See `kernels.Kernels`.

Every method is one upload and one launch (`carry_out`: one upload and at most two). A list longer than one grid takes
is cut into launches, which real pools never need.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd
from typing import Any

import numpy as np
import numpy.typing as npt

from pagedkv.arguments import IntArray
from pagedkv.backends.cuda_attention import CudaAttention
from pagedkv.backends.cuda_driver import Driver
from pagedkv.backends.cuda_kv import CudaKV
from pagedkv.backends.cuda_launch import I32, POINTER, U32, U64, KernelStore
from pagedkv.backends.cuda_staging import Staging
from pagedkv.backends.cuda_stream import CudaStream, as_stream
from pagedkv.backends.cuda_tables import TableKernels
from pagedkv.kernels import Place, PoolMemory, TableBatch, TableMemory, TokenBatch
from pagedkv.kernels.launch_shapes import (
    INLINE_CAPACITIES,
    TABLE_THREADS,
    copy_shape,
    copy_variants,
    flat_grid,
    piece_shape,
    piece_variants,
    row_shape,
    table_grid,
)
from pagedkv.kernels.pieces import PIECES_WORDS, pieces_argument, row_extents
from pagedkv.layout import Extents
from pagedkv.streams import Buffer, Stream

_PIECES = U64 * PIECES_WORDS  # struct pieces_t
_BLOCK_TYPES = {
    (name, contiguous): (POINTER, POINTER, U64 if contiguous else _PIECES, U32, *more)
    for name, more in (("copy_blocks", (U32,)), ("scrub", ()))
    for contiguous in (True, False)
}
_SCATTER = (POINTER, U64, POINTER, U32)
_INLINE = {size: (POINTER, U64, U32, I32 * (3 * size)) for size in INLINE_CAPACITIES}
_GROW = (POINTER, U64, U64, POINTER, U64, U64, I32)


class CudaKernels(CudaKV, CudaAttention):
    """See `pagedkv.kernels.Kernels`."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self.store = KernelStore(driver)
        self.staging = Staging(driver)
        self._tables = TableKernels(driver, self.store)

    def prepare(self, memory: PoolMemory) -> None:
        """Compile and load what `apply` needs, so that no step pays for it."""
        with self._driver.current():
            for macros in _copy_variants(memory):
                self.store.get("copy_blocks", _BLOCK_TYPES["copy_blocks", memory.extents.contiguous], **macros)
            self.store.get("scatter_table", _SCATTER, THREADS=TABLE_THREADS)
            for capacity in INLINE_CAPACITIES:
                self.store.get("scatter_inline", _INLINE[capacity], THREADS=TABLE_THREADS, CAPACITY=capacity)
            self.store.get("grow_table", _GROW, THREADS=TABLE_THREADS)

    def carry_out(
        self,
        memory: PoolMemory,
        copies: npt.NDArray[np.int32],
        table: TableMemory | None,
        updates: npt.NDArray[np.int32],
        stream: Stream,
    ) -> None:
        queue = as_stream(self._driver, stream)
        if not len(copies) and not len(updates):
            return
        if not len(copies) and table is not None and len(updates) <= INLINE_CAPACITIES[-1]:
            with self._driver.current():
                self._scatter_inline(table, updates, queue)
            return
        with self._driver.current(), self.staging.uploaded((copies, updates), queue) as (pairs, entries):
            if len(copies):
                self._each_block("copy_blocks", memory, pairs, len(copies), queue)
            if len(updates) and table is not None:
                self._scatter(table, entries, len(updates), queue)

    def copy_blocks(self, memory: PoolMemory, pairs: npt.NDArray[np.int32], stream: Stream) -> None:
        self.carry_out(memory, pairs, None, np.zeros((0, 3), np.int32), stream)

    def scatter_table(self, table: TableMemory, updates: npt.NDArray[np.int32], stream: Stream) -> None:
        queue = as_stream(self._driver, stream)
        if not len(updates):
            return
        with self._driver.current(), self.staging.uploaded((updates,), queue) as (entries,):
            self._scatter(table, entries, len(updates), queue)

    def fill_blocks(self, memory: PoolMemory, block_ids: IntArray, tags: IntArray, stream: Stream) -> None:
        self._rows(memory, 1, (tags, None, block_ids), None, stream)

    def verify_blocks(
        self, memory: PoolMemory, block_ids: IntArray, tags: IntArray, counter: Buffer, stream: Stream
    ) -> None:
        self._rows(memory, 1, (tags, None, block_ids), counter, stream)

    def fill_tokens(self, memory: PoolMemory, tokens: TokenBatch, stream: Stream) -> None:
        self._rows(memory, memory.layout.block_size, _token_arrays(tokens), None, stream)

    def verify_tokens(self, memory: PoolMemory, tokens: TokenBatch, counter: Buffer, stream: Stream) -> None:
        self._rows(memory, memory.layout.block_size, _token_arrays(tokens), counter, stream)

    def fill_floats(
        self, memory: PoolMemory, block_ids: IntArray, values: npt.NDArray[np.float32], stream: Stream
    ) -> None:
        self._floats("fill_float", memory, block_ids, values, (), stream)

    def verify_floats(
        self,
        memory: PoolMemory,
        block_ids: IntArray,
        values: npt.NDArray[np.float32],
        counter: Buffer,
        stream: Stream,
    ) -> None:
        self._floats("verify_float", memory, block_ids, values, (counter.address,), stream)

    def scrub_blocks(self, memory: PoolMemory, block_ids: IntArray, stream: Stream) -> None:
        queue = as_stream(self._driver, stream)
        if not len(block_ids):
            return
        with self._driver.current(), self.staging.uploaded((np.ascontiguousarray(block_ids),), queue) as (ids,):
            self._each_block("scrub", memory, ids, len(block_ids), queue)

    def grow_table(self, old: TableMemory, new: TableMemory, pad: int, stream: Stream) -> None:
        kernel = self.store.get("grow_table", _GROW, THREADS=TABLE_THREADS)
        arguments = (old.buffer.address, old.rows, old.width, new.buffer.address, new.rows, new.width, pad)
        with self._driver.current():
            queue = as_stream(self._driver, stream)
            kernel.launch(table_grid(new.rows, new.width), TABLE_THREADS, queue, *arguments)

    def gather_table(self, table: TableMemory, batch: TableBatch, out: Place, pad: int, stream: Stream) -> None:
        self._tables.gather_table(table, batch, out, pad, as_stream(self._driver, stream))

    def slots(
        self, table: TableMemory, batch: TableBatch, positions: Place, out: Place, stream: Stream, *, limited: bool
    ) -> None:
        self._tables.slots(table, batch, positions, out, as_stream(self._driver, stream), limited=limited)

    def csr(
        self, table: TableMemory, batch: TableBatch, indptr: Place, indices: Place, last_page_len: Place, stream: Stream
    ) -> None:
        self._tables.csr(table, batch, indptr, indices, last_page_len, as_stream(self._driver, stream))

    def close(self) -> None:
        """Free staging memory and modules; no work may be left."""
        with self._driver.current():
            self.staging.close()
            self.store.close()

    def _scatter(self, table: TableMemory, entries: int, count: int, queue: CudaStream) -> None:
        kernel = self.store.get("scatter_table", _SCATTER, THREADS=TABLE_THREADS)
        kernel.launch(flat_grid(count), TABLE_THREADS, queue, table.buffer.address, table.width, entries, count)

    def _scatter_inline(self, table: TableMemory, updates: npt.NDArray[np.int32], queue: CudaStream) -> None:
        count = len(updates)
        capacity = next(size for size in INLINE_CAPACITIES if count <= size)
        kernel = self.store.get("scatter_inline", _INLINE[capacity], THREADS=TABLE_THREADS, CAPACITY=capacity)
        entries = np.ascontiguousarray(updates)
        kernel.launch(flat_grid(count), TABLE_THREADS, queue, table.buffer.address, table.width, count, entries)

    def _each_block(self, name: str, memory: PoolMemory, items: int, count: int, queue: CudaStream) -> None:
        """Launch copy_blocks or scrub over `count` items of 8 bytes each: a pair of int32 ids, an int64 id."""
        extents = memory.extents
        contiguous = extents.contiguous
        where: int | npt.NDArray[np.uint64]
        if contiguous:
            where, shape = extents.sizes[0], copy_shape(extents.sizes[0], count, _alignment(memory))
        else:
            where, shape = pieces_argument(extents), piece_shape(extents, count, _alignment(memory))
        copying = name == "copy_blocks"
        a_cta = shape.pairs_a_cta if copying else 1
        kernel = self.store.get(name, _BLOCK_TYPES[name, contiguous], **shape.macros)
        for start in range(0, count, shape.blocks_a_launch):
            part = min(shape.blocks_a_launch, count - start)
            grid = (-(-part // a_cta) * shape.chunks_per_block, shape.grid[1], 1)
            arguments = (memory.buffer.address, items + 8 * start, where, shape.chunks_per_block)
            kernel.launch(grid, shape.threads, queue, *arguments, *(part,) * copying)

    def _rows(
        self,
        memory: PoolMemory,
        rows_a_block: int,
        arrays: tuple[IntArray, IntArray | None, IntArray],
        counter: Buffer | None,
        stream: Stream,
    ) -> None:
        owners, positions, indices = arrays
        if not len(indices):
            return
        queue = as_stream(self._driver, stream)
        given = [np.ascontiguousarray(a, np.int64) for a in (owners, indices, positions) if a is not None]
        extents = row_extents(memory.extents, rows_a_block)
        shape = row_shape(max(extents.sizes), len(indices), _row_alignment(memory, extents))
        macros = {**shape.macros, **_piece_macro(extents), "POSITIONS": int(positions is not None)}
        types = (POINTER, POINTER, POINTER, POINTER, U64, _extent_type(extents))
        with self._driver.current(), self.staging.uploaded(given, queue) as places:
            spots = places[2] if positions is not None else 0
            count, where = len(indices), _extent_argument(extents)
            arguments: list[Any] = [memory.buffer.address, places[0], spots, places[1], count, where]
            if counter is None:
                kernel = self.store.get("fill_rows", types, **macros)
            else:
                kernel = self.store.get("verify_rows", (*types, POINTER), **macros)
                arguments.append(counter.address)
            kernel.launch(shape.grid, shape.threads, queue, *arguments)

    def _floats(
        self,
        name: str,
        memory: PoolMemory,
        block_ids: IntArray,
        values: npt.NDArray[np.float32],
        more: tuple[int, ...],
        stream: Stream,
    ) -> None:
        if not len(block_ids):
            return
        queue = as_stream(self._driver, stream)
        given = (np.ascontiguousarray(block_ids, np.int64), np.ascontiguousarray(values, np.float32))
        types = (POINTER, POINTER, POINTER, _extent_type(memory.extents)) + (POINTER,) * len(more)
        with self._driver.current(), self.staging.uploaded(given, queue) as (ids, wanted):
            kernel = self.store.get(name, types, THREADS=TABLE_THREADS, **_piece_macro(memory.extents))
            arguments = (memory.buffer.address, ids, wanted, _extent_argument(memory.extents), *more)
            kernel.launch((len(block_ids), 1, 1), TABLE_THREADS, queue, *arguments)


def _token_arrays(tokens: TokenBatch) -> tuple[IntArray, IntArray, IntArray]:
    return tokens.seq_ids, tokens.positions, tokens.slots


def _alignment(memory: PoolMemory) -> int:
    return gcd(memory.buffer.address, 16)


def _row_alignment(memory: PoolMemory, extents: Extents) -> int:
    """What every row's address is a multiple of, as far as it is not already by the row's size."""
    return _alignment(memory) if extents.contiguous else gcd(_alignment(memory), extents.alignment)


def _copy_variants(memory: PoolMemory) -> list[Mapping[str, int]]:
    if memory.extents.contiguous:
        return copy_variants(memory.layout.block_bytes, _alignment(memory))
    return piece_variants(memory.extents, _alignment(memory))


def _extent_type(extents: Extents) -> Any:
    return U64 if extents.contiguous else _PIECES


def _extent_argument(extents: Extents) -> int | npt.NDArray[np.uint64]:
    """What kernels are told of the place of rows: the bytes of a row, or struct pieces_t."""
    return extents.sizes[0] if extents.contiguous else pieces_argument(extents)


def _piece_macro(extents: Extents) -> dict[str, int]:
    return {} if extents.contiguous else {"PIECES": 1}
