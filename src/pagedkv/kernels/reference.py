"""The kernels in NumPy: the right values for every backend, and the host backend's own implementation.

Plain functions over arrays of rows: a row is a block or a token, `rows` is uint8 [number of rows, bytes of a
row]. Work is cut into batches, so a temporary never exceeds a few MiB however many rows there are. Row indices are
int64 throughout.
Where a row lies in pieces, `pieces` is one such array for each, and the row's bytes are the arrays' one after another;
what does the same to every byte (copies, zeros, floats) is done to each array by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from pagedkv.arguments import IntArray

Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float32]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_BATCH_BYTES = 1 << 21


def mix(values: Words) -> Words:
    """The finalizer of splitmix64, a bijection of 64 bits (constants: Steele, Lea, Flood, OOPSLA 2014)."""
    z = (values ^ (values >> np.uint64(30))) * _MIX_1
    z = (z ^ (z >> np.uint64(27))) * _MIX_2
    return z ^ (z >> np.uint64(31))


def token_keys(seq_ids: IntArray, positions: IntArray) -> Words:
    """The 64-bit key of each (sequence, position); int64 arrays that broadcast against each other."""
    owners = mix(np.atleast_1d(seq_ids).astype(np.int64).view(np.uint64) + GOLDEN)
    places = np.atleast_1d(positions).astype(np.int64).view(np.uint64) + np.uint64(1)
    return mix(owners + places * GOLDEN)


def block_keys(tags: IntArray) -> Words:
    """The key of each block tag: that of position -1, which no token has."""
    return token_keys(tags, np.full(1, -1, np.int64))


def pattern(keys: Words, row_bytes: int) -> Bytes:
    """uint8 [len(keys), row_bytes]: each key's pattern, little-endian, the last word cut."""
    words = np.arange((row_bytes + 7) // 8, dtype=np.uint64) * GOLDEN
    table = (keys[:, None] + words[None, :]).astype("<u8", copy=False)
    return table.view(np.uint8)[:, :row_bytes]


def copy_rows(rows: Bytes, pairs: npt.NDArray[np.int32]) -> None:
    """rows[destination] = rows[source] for int32 pairs [n, 2]; no destination is also a source.

    A pair with a source below 0 is padding.
    """
    pairs = pairs[pairs[:, 0] >= 0]
    for batch in _batches(len(pairs), rows.shape[1]):
        source, destination = pairs[batch].astype(np.int64).T
        rows[destination] = rows[source]


def fill_rows(rows: Bytes, indices: IntArray, keys: Words) -> None:
    """Write each key's pattern into its row; rows with an index below 0 are skipped."""
    fill_pieces([rows], indices, keys)


def count_wrong(rows: Bytes, indices: IntArray, keys: Words) -> int:
    """The number of rows that differ from their key's pattern; an index below 0 is skipped."""
    return count_wrong_pieces([rows], indices, keys)


def fill_pieces(pieces: Sequence[Bytes], indices: IntArray, keys: Words) -> None:
    """As fill_rows, for rows that lie in pieces."""
    indices, keys = _present(indices, keys)
    row_bytes = sum(rows.shape[1] for rows in pieces)
    for batch in _batches(len(indices), row_bytes):
        table = pattern(keys[batch], row_bytes)
        for rows, columns in _columns(pieces):
            rows[indices[batch]] = table[:, columns]


def count_wrong_pieces(pieces: Sequence[Bytes], indices: IntArray, keys: Words) -> int:
    """As count_wrong, for rows that lie in pieces: a row counts once, however many of its pieces differ."""
    indices, keys = _present(indices, keys)
    row_bytes = sum(rows.shape[1] for rows in pieces)
    wrong = 0
    for batch in _batches(len(indices), row_bytes):
        table = pattern(keys[batch], row_bytes)
        differs = np.zeros(len(table), np.bool_)
        for rows, columns in _columns(pieces):
            differs |= (rows[indices[batch]] != table[:, columns]).any(axis=1)
        wrong += int(np.count_nonzero(differs))
    return wrong


def scrub_rows(rows: Bytes, indices: IntArray) -> None:
    """Write zeros over the rows; an index below 0 is skipped."""
    rows[indices[indices >= 0]] = 0


def fill_floats(rows: Floats, indices: IntArray, values: Floats) -> None:
    """Write values[i] to every float of row indices[i]; an index below 0 is skipped. Rows are float32."""
    present = indices >= 0
    rows[indices[present]] = values[present, None]


def count_wrong_floats(rows: Floats, indices: IntArray, values: Floats) -> int:
    """The number of floats in those rows that are not equal to their row's value (a NaN never is)."""
    present = indices >= 0
    return int(np.count_nonzero(rows[indices[present]] != values[present, None]))


def grow_table(old: npt.NDArray[np.int32], new: npt.NDArray[np.int32], pad: int) -> None:
    """Copy `old` into the upper left corner of `new`; `pad` elsewhere."""
    new[:] = pad
    new[: old.shape[0], : old.shape[1]] = old


def scatter_table(table: npt.NDArray[np.int32], updates: npt.NDArray[np.int32]) -> None:
    """table[row, column] = block for int32 updates [k, 3]; a row below 0 is padding."""
    row, column, block = updates[updates[:, 0] >= 0].T
    table[row, column] = block


def _present(indices: IntArray, keys: Words) -> tuple[IntArray, Words]:
    present = indices >= 0
    return (indices, keys) if present.all() else (indices[present], keys[present])


def _columns(pieces: Sequence[Bytes]) -> Iterator[tuple[Bytes, slice]]:
    """Each piece's rows, and where its bytes are in a row's."""
    before = 0
    for rows in pieces:
        yield rows, slice(before, before + rows.shape[1])
        before += rows.shape[1]


def _batches(count: int, row_bytes: int) -> Iterator[slice]:
    step = max(1, _BATCH_BYTES // row_bytes)
    return (slice(start, start + step) for start in range(0, count, step))
