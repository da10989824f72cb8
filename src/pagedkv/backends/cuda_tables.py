"""Exports of the device-resident block tables on a GPU: dense tables, slot mappings, CSR; into arrays of the caller.

No upload and no allocation: rows, lengths and results are device arrays at fixed addresses, so these launches may be
captured into a CUDA graph and replayed with other contents.
"""

from __future__ import annotations

from pagedkv.backends.cuda_driver import Driver
from pagedkv.backends.cuda_launch import I32, POINTER, U32, U64, KernelStore
from pagedkv.backends.cuda_stream import CudaStream
from pagedkv.kernels import Place, TableBatch, TableMemory
from pagedkv.kernels.launch_shapes import SCAN_THREADS, TABLE_THREADS, flat_grid, table_grid

_GATHER = (POINTER, U64, U64, POINTER, POINTER, U32, U32, POINTER, U64, I32)
_SLOTS = (POINTER, U64, U64, POINTER, POINTER, POINTER, U64, U32, POINTER)
_INDPTR = (POINTER, POINTER, U32, U32, U64, U64, POINTER, POINTER)
_INDICES = (POINTER, U64, U64, POINTER, U32, POINTER, POINTER, U64)


class TableKernels:
    """See `pagedkv.kernels.Kernels`; the caller has checked shapes and types."""

    def __init__(self, driver: Driver, store: KernelStore) -> None:
        self._driver = driver
        self._store = store

    def gather_table(self, table: TableMemory, batch: TableBatch, out: Place, pad: int, stream: CudaStream) -> None:
        """One launch."""
        count, columns = out.shape
        if not count or not columns:
            return
        with self._driver.current():
            kernel = self._store.get("gather_table", _GATHER, THREADS=TABLE_THREADS)
            source = (table.buffer.address, table.rows, table.width, batch.rows.address, batch.lengths.address)
            target = (count, batch.block_size, out.address, columns, pad)
            kernel.launch(table_grid(count, columns), TABLE_THREADS, stream, *source, *target)

    def slots(
        self, table: TableMemory, batch: TableBatch, positions: Place, out: Place, stream: CudaStream, *, limited: bool
    ) -> None:
        """One launch."""
        count = out.shape[0]
        if not count:
            return
        with self._driver.current():
            kernel = self._store.get("slots", _SLOTS, THREADS=TABLE_THREADS, POSITION_BYTES=positions.itemsize)
            limits = batch.lengths.address if limited else 0
            source = (table.buffer.address, table.rows, table.width, batch.rows.address, positions.address, limits)
            kernel.launch(flat_grid(count), TABLE_THREADS, stream, *source, count, batch.block_size, out.address)

    def csr(
        self,
        table: TableMemory,
        batch: TableBatch,
        indptr: Place,
        indices: Place,
        last_page_len: Place,
        stream: CudaStream,
    ) -> None:
        """Two launches: the gather needs the finished indptr."""
        count = batch.rows.shape[0]
        with self._driver.current():
            scan = self._store.get("csr_indptr", _INDPTR, THREADS=SCAN_THREADS)
            sizes = (count, batch.block_size, table.rows, table.width)
            addresses = (batch.rows.address, batch.lengths.address)
            scan.launch((1, 1, 1), SCAN_THREADS, stream, *addresses, *sizes, indptr.address, last_page_len.address)
            if not count or not indices.shape[0]:
                return
            gather = self._store.get("csr_indices", _INDICES, THREADS=TABLE_THREADS)
            source = (table.buffer.address, table.rows, table.width, batch.rows.address, count)
            target = (indptr.address, indices.address, indices.shape[0])
            gather.launch(table_grid(count, table.width), TABLE_THREADS, stream, *source, *target)
