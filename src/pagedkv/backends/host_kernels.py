"""The host's kernels: the NumPy reference, put on host streams.

Arrays are copied when the work is put on, buffers are looked up when it runs: an argument changed too late
does no harm, memory freed too early is a BackendError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from pagedkv.arguments import IntArray
from pagedkv.backends.host_attention import HostAttention
from pagedkv.backends.host_buffer import Bytes, own_buffer, table_cells
from pagedkv.backends.host_kv import HostKV
from pagedkv.backends.host_stream import own_stream
from pagedkv.kernels import (
    Place,
    PoolMemory,
    SeparateLaunches,
    TableBatch,
    TableMemory,
    TokenBatch,
    reference,
    table_reference,
)
from pagedkv.kernels.pieces import row_extents, row_views
from pagedkv.streams import Buffer, Stream


class HostKernels(HostKV, HostAttention, SeparateLaunches):
    """See `pagedkv.kernels.Kernels`."""

    def copy_blocks(self, memory: PoolMemory, pairs: npt.NDArray[np.int32], stream: Stream) -> None:
        pairs = pairs.copy()
        own_stream(stream).enqueue(lambda: _each(_blocks(memory), reference.copy_rows, pairs))

    def fill_blocks(self, memory: PoolMemory, block_ids: IntArray, tags: IntArray, stream: Stream) -> None:
        ids, keys = block_ids.copy(), reference.block_keys(tags)
        own_stream(stream).enqueue(lambda: reference.fill_pieces(_blocks(memory), ids, keys))

    def verify_blocks(
        self, memory: PoolMemory, block_ids: IntArray, tags: IntArray, counter: Buffer, stream: Stream
    ) -> None:
        ids, keys = block_ids.copy(), reference.block_keys(tags)
        own_stream(stream).enqueue(lambda: _add(counter, reference.count_wrong_pieces(_blocks(memory), ids, keys)))

    def fill_tokens(self, memory: PoolMemory, tokens: TokenBatch, stream: Stream) -> None:
        slots, keys = tokens.slots.copy(), reference.token_keys(tokens.seq_ids, tokens.positions)
        own_stream(stream).enqueue(lambda: reference.fill_pieces(_tokens(memory), slots, keys))

    def verify_tokens(self, memory: PoolMemory, tokens: TokenBatch, counter: Buffer, stream: Stream) -> None:
        slots, keys = tokens.slots.copy(), reference.token_keys(tokens.seq_ids, tokens.positions)
        own_stream(stream).enqueue(lambda: _add(counter, reference.count_wrong_pieces(_tokens(memory), slots, keys)))

    def fill_floats(
        self, memory: PoolMemory, block_ids: IntArray, values: npt.NDArray[np.float32], stream: Stream
    ) -> None:
        ids, wanted = block_ids.copy(), values.copy()
        own_stream(stream).enqueue(lambda: _each(_floats(memory), reference.fill_floats, ids, wanted))

    def verify_floats(
        self,
        memory: PoolMemory,
        block_ids: IntArray,
        values: npt.NDArray[np.float32],
        counter: Buffer,
        stream: Stream,
    ) -> None:
        ids, wanted = block_ids.copy(), values.copy()

        def run() -> None:
            _add(counter, sum(reference.count_wrong_floats(rows, ids, wanted) for rows in _floats(memory)))

        own_stream(stream).enqueue(run)

    def scrub_blocks(self, memory: PoolMemory, block_ids: IntArray, stream: Stream) -> None:
        ids = block_ids.copy()
        own_stream(stream).enqueue(lambda: _each(_blocks(memory), reference.scrub_rows, ids))

    def gather_table(self, table: TableMemory, batch: TableBatch, out: Place, pad: int, stream: Stream) -> None:
        rows, lengths, size = batch.rows.array, batch.lengths.array, batch.block_size
        own_stream(stream).enqueue(
            lambda: table_reference.gather_table(table_cells(table), rows, lengths, size, out.array, pad)
        )

    def slots(
        self, table: TableMemory, batch: TableBatch, positions: Place, out: Place, stream: Stream, *, limited: bool
    ) -> None:
        limits = batch.lengths.array if limited else None
        rows, size = batch.rows.array, batch.block_size

        def run() -> None:
            out.array[:] = table_reference.slots(table_cells(table), rows, positions.array, size, limits)

        own_stream(stream).enqueue(run)

    def csr(
        self, table: TableMemory, batch: TableBatch, indptr: Place, indices: Place, last_page_len: Place, stream: Stream
    ) -> None:
        rows, lengths, size = batch.rows.array, batch.lengths.array, batch.block_size

        def run() -> None:
            cells = table_cells(table)
            table_reference.csr_indptr(cells, rows, lengths, size, indptr.array, last_page_len.array)
            table_reference.csr_indices(cells, rows, indptr.array, indices.array)

        own_stream(stream).enqueue(run)

    def grow_table(self, old: TableMemory, new: TableMemory, pad: int, stream: Stream) -> None:
        own_stream(stream).enqueue(lambda: reference.grow_table(table_cells(old), table_cells(new), pad))

    def scatter_table(self, table: TableMemory, updates: npt.NDArray[np.int32], stream: Stream) -> None:
        updates = updates.copy()
        own_stream(stream).enqueue(lambda: reference.scatter_table(table_cells(table), updates))


def _blocks(memory: PoolMemory) -> list[Bytes]:
    return row_views(own_buffer(memory.buffer).array, memory.extents, memory.num_blocks)


def _floats(memory: PoolMemory) -> list[npt.NDArray[np.float32]]:
    return [rows.view(np.float32) for rows in _blocks(memory)]


def _tokens(memory: PoolMemory) -> list[Bytes]:
    size = memory.layout.block_size
    return row_views(own_buffer(memory.buffer).array, row_extents(memory.extents, size), memory.num_blocks * size)


def _each(pieces: Iterable[npt.NDArray[Any]], change: Callable[..., None], *arguments: npt.NDArray[Any]) -> None:
    """The same change to every piece of the rows."""
    for rows in pieces:
        change(rows, *arguments)


def _add(counter: Buffer, amount: int) -> None:
    own_buffer(counter).array[:8].view(np.int64)[0] += amount
