"""Decode attention, in NumPy on host streams. See `kernels.KVKernels`."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pagedkv.backends.host_buffer import table_cells
from pagedkv.backends.host_kv import pool_part
from pagedkv.backends.host_stream import own_stream
from pagedkv.kernels import DecodeBatch, PoolMemory, TableMemory
from pagedkv.kernels.attention_reference import Scores, StoredKV, decode_attention, query_ranges, row_tables
from pagedkv.kernels.number_formats import from_float32, to_float32
from pagedkv.streams import Stream


class HostAttention:
    """See `pagedkv.kernels.KVKernels`. Every head size and ratio; arguments are read when the stream gets there."""

    def decode_attention(self, memory: PoolMemory, batch: DecodeBatch, stream: Stream) -> None:
        own_stream(stream).enqueue(lambda: _run(memory, batch))


def _run(memory: PoolMemory, batch: DecodeBatch) -> None:
    tables = row_tables(_table(batch), None if batch.rows is None else batch.rows.array)
    queries = to_float32(batch.queries.array, batch.queries.dtype).astype(np.float64)
    k, v = (pool_part(memory, batch.layer, name) for name in ("k", "v"))
    stored = StoredKV(k, v, batch.k_scale, batch.v_scale)
    starts = None if batch.starts is None else batch.starts.array
    ranges = query_ranges(batch.lengths.array, starts, queries.shape[1], causal=batch.causal, window=batch.window)
    found = decode_attention(stored, queries, tables, ranges, Scores(batch.softmax_scale, batch.softcap))
    batch.out.array[:] = from_float32(found.astype(np.float32), batch.out.dtype)


def _table(batch: DecodeBatch) -> npt.NDArray[np.int32]:
    table = batch.table
    return table_cells(table) if isinstance(table, TableMemory) else np.asarray(table.array)
