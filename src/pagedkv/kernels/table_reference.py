"""The kernels that read device-resident block tables, in NumPy: what every backend must compute.

A table is int32 [rows, width]. `rows` names its lines, int32 [n]; one outside the table is a padding row. Lengths are
in tokens, int32 [n]; with a block size of 1 they are in blocks. Results go into the caller's arrays. No column beyond
the table's width is read, whatever a length or position says.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pagedkv.arguments import IntArray

Int32s = npt.NDArray[np.int32]
# indptr is int32 because FlashInfer wants it so; it stops growing there.
_LARGEST_INDPTR = 2**31 - 1


def gather_table(table: Int32s, rows: Int32s, lengths: Int32s, block_size: int, out: Int32s, pad: int) -> None:
    """Dense block table of a batch, out int32 [n, columns]: the blocks that each row's tokens fill, else `pad`."""
    out[:] = pad
    columns = min(out.shape[1], table.shape[1])
    counts = _live_columns(table, rows, lengths, block_size)
    live = np.arange(columns) < counts[:, None]
    entries = table[_readable(table, rows), :columns] if len(table) else out[:, :columns]
    out[:, :columns][live] = entries[live]


def slots(
    table: Int32s, rows: Int32s, positions: npt.NDArray[np.integer], block_size: int, limits: Int32s | None = None
) -> IntArray:
    """The slot of each (row, position), int64 [n]; -1 for what has none.

    None has: a padding row, a position below 0 or, where `limits` is given, at or beyond its row's limit, a column
    beyond the table, a table entry below 0.
    """
    out = np.full(len(rows), -1, np.int64)
    places = positions.astype(np.int64)
    column = places // block_size
    live = _inside(table, rows) & (places >= 0) & (column < table.shape[1])
    if limits is not None:
        live &= places < limits
    blocks = table[rows[live], column[live]].astype(np.int64)
    out[live] = np.where(blocks >= 0, blocks * block_size + places[live] % block_size, -1)
    return out


def csr_indptr(
    table: Int32s, rows: Int32s, lengths: Int32s, block_size: int, indptr: Int32s, last_page_len: Int32s
) -> None:
    """FlashInfer's indptr [n + 1] and last_page_len [n]: 1 to block_size tokens, 0 for a row without blocks."""
    counts = _live_columns(table, rows, lengths, block_size)
    indptr[0] = 0
    indptr[1:] = np.minimum(np.cumsum(counts), _LARGEST_INDPTR)
    last_tokens = np.minimum(lengths - (counts - 1) * block_size, block_size)
    last_page_len[:] = np.where(counts > 0, last_tokens, 0)


def csr_indices(table: Int32s, rows: Int32s, indptr: Int32s, indices: Int32s) -> None:
    """FlashInfer's indices: each row's blocks at indptr[i]; what does not fit `indices` is left out."""
    counts = np.where(_inside(table, rows), np.minimum(np.diff(indptr.astype(np.int64)), table.shape[1]), 0)
    owner = np.repeat(np.arange(len(rows)), counts)
    column = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    to = indptr[owner].astype(np.int64) + column
    fits = to < len(indices)
    indices[to[fits]] = table[rows[owner[fits]], column[fits]]


def _inside(table: Int32s, rows: Int32s) -> npt.NDArray[np.bool_]:
    return (rows >= 0) & (rows < len(table))


def _readable(table: Int32s, rows: Int32s) -> Int32s:
    return np.where(_inside(table, rows), rows, 0)


def _live_columns(table: Int32s, rows: Int32s, lengths: Int32s, block_size: int) -> IntArray:
    """Blocks that each row's tokens fill, as far as the table goes."""
    blocks = np.minimum(-(-lengths.astype(np.int64) // block_size), table.shape[1])
    return np.where(_inside(table, rows), np.maximum(blocks, 0), 0)
