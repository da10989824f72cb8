"""Decode attention, in NumPy on host streams. See `kernels.KVKernels`."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pagedkv.arguments import IntArray
from pagedkv.backends.host_buffer import own_buffer
from pagedkv.backends.host_stream import own_stream
from pagedkv.kernels import DecodeBatch, PoolMemory, TableMemory, attention_reference
from pagedkv.kernels.attention_reference import Decode, Doubles, StoredPart
from pagedkv.kernels.number_formats import from_float32, to_float32
from pagedkv.kv_layout import KVLayout, PartView
from pagedkv.streams import Stream


class HostAttention:
    """See `pagedkv.kernels.KVKernels`. Every head size and ratio; arguments are read when the stream gets there."""

    def decode_attention(self, memory: PoolMemory, batch: DecodeBatch, stream: Stream) -> None:
        own_stream(stream).enqueue(lambda: _run(memory, batch))


def _run(memory: PoolMemory, batch: DecodeBatch) -> None:
    tables = attention_reference.row_tables(_table(batch), None if batch.rows is None else batch.rows.array)
    queries = _doubles(batch.queries.array, batch.queries.dtype)
    k, v = _part(memory, batch.layer, "k", batch.k_scale), _part(memory, batch.layer, "v", batch.v_scale)
    found = attention_reference.decode_attention(k, v, queries, tables, _ranges(batch), batch.softmax_scale)
    batch.out.array[:] = from_float32(found.astype(np.float32), batch.out.dtype)


def _table(batch: DecodeBatch) -> npt.NDArray[np.int32]:
    table = batch.table
    if not isinstance(table, TableMemory):
        return np.asarray(table.array)
    cells = table.rows * table.width
    return own_buffer(table.buffer).array[: cells * 4].view(np.int32).reshape(table.rows, table.width)


def _ranges(batch: DecodeBatch) -> IntArray:
    ends = batch.lengths.array.astype(np.int64)
    firsts = np.zeros_like(ends) if batch.starts is None else batch.starts.array.astype(np.int64)
    return np.stack((firsts, ends), axis=1)


def _part(memory: PoolMemory, layer: int, name: str, scale: float) -> StoredPart:
    layout = memory.layout
    assert isinstance(layout, KVLayout)
    scales: npt.NDArray[Any] | float = scale
    if layout.scales:
        scales = _view(memory, layout.part_view(layer, f"{name}_scale", memory.num_blocks))
    numbers = _view(memory, layout.part_view(layer, name, memory.num_blocks))
    return StoredPart(numbers, scales, layout.kv_layout == "HND", _decoder(layout.dtype))


def _decoder(dtype: str) -> Decode:
    return lambda stored: _doubles(stored, dtype)


def _doubles(stored: npt.NDArray[Any], dtype: str) -> Doubles:
    return to_float32(stored, dtype).astype(np.float64)


def _view(memory: PoolMemory, view: PartView) -> npt.NDArray[Any]:
    storage, array = np.dtype(view.part.dtype.storage), own_buffer(memory.buffer).array
    return np.ndarray(view.shape, storage, array, view.offset, view.strides)
