"""Kernels that keep and read block tables, under the sanitizers, against their NumPy twins."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from pagedkv.kernels import reference, table_reference
from pagedkv.kernels.launch_shapes import SCAN_THREADS, TABLE_THREADS, flat_grid, table_grid

from .host_build import HostKernels

_MACROS = {"THREADS": TABLE_THREADS}
_SIZE = 16


def _table(rows: int, width: int) -> table_reference.Int32s:
    return np.random.default_rng(width).integers(0, 2**31 - 1, (rows, width), np.int32)


def _batch(table: table_reference.Int32s, count: int) -> tuple[table_reference.Int32s, table_reference.Int32s]:
    """Rows inside, below and beyond the table; lengths of nothing, of part of a row, and past its end."""
    generator = np.random.default_rng(count)
    rows = generator.integers(-2, len(table) + 2, count).astype(np.int32)
    lengths = generator.integers(-1, table.shape[1] * _SIZE + 40, count).astype(np.int32)
    lengths[:4] = [0, 1, _SIZE, 2**31 - 1]
    return rows, lengths


def test_scatters_updates(host_kernels: HostKernels) -> None:
    table = _table(5, 70)
    updates = np.array([[0, 0, 9], [4, 69, 2**31 - 1], [-1, -1, -1], [2, 33, -1]], np.int32)
    expected = table.copy()
    reference.scatter_table(expected, updates)
    arguments = [table, table.shape[1], updates, len(updates)]
    host_kernels.launch("scatter_table", _MACROS, flat_grid(len(updates)), TABLE_THREADS, arguments)
    np.testing.assert_array_equal(table, expected)


@pytest.mark.parametrize("count", [1, 3, 64])
def test_scatters_updates_given_as_an_argument(host_kernels: HostKernels, count: int) -> None:
    table = _table(5, 70)
    expected = table.copy()
    places = np.random.default_rng(count).permutation(5 * 70)[:64]
    updates = np.stack([places // 70, places % 70, np.arange(64)], axis=1).astype(np.int32)
    updates[1] = -1
    reference.scatter_table(expected, updates[:count])
    macros = {**_MACROS, "CAPACITY": 64}
    arguments = [table, table.shape[1], count, updates]
    host_kernels.launch("scatter_inline", macros, flat_grid(count), TABLE_THREADS, arguments)
    np.testing.assert_array_equal(table, expected)


@pytest.mark.parametrize(("old_rows", "old_width"), [(0, 0), (3, 64), (5, 300)])
def test_grows_a_table(host_kernels: HostKernels, old_rows: int, old_width: int) -> None:
    old, new = _table(old_rows, old_width), _table(5, 300)
    expected = new.copy()
    reference.grow_table(old, expected, -5)
    # A grid lower than the table has rows: the stride must reach the rest.
    grid = (table_grid(5, 300)[0], 2)
    arguments = [old, old_rows, old_width, new, 5, 300, -5]
    host_kernels.launch("grow_table", _MACROS, grid, TABLE_THREADS, arguments)
    np.testing.assert_array_equal(new, expected)


@pytest.mark.parametrize(("width", "out_width"), [(20, 20), (20, 300), (300, 7)])
def test_gathers_a_batch(host_kernels: HostKernels, width: int, out_width: int, reverse: bool) -> None:
    table = _table(6, width)
    rows, lengths = _batch(table, 9)
    out, expected = np.full((2, 9, out_width), -9, np.int32)
    table_reference.gather_table(table, rows, lengths, _SIZE, expected, 77)
    arguments = [table, *table.shape, rows, lengths, len(rows), _SIZE, out, out_width, 77]
    grid = (table_grid(9, out_width)[0], 4)
    host_kernels.launch("gather_table", _MACROS, grid, TABLE_THREADS, arguments, reverse=reverse)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("limited", [False, True])
def test_computes_slots(host_kernels: HostKernels, kind: type[np.signedinteger[Any]], limited: bool) -> None:
    table = _table(6, 20)
    table[3, 4] = -1
    positions = np.array([0, 15, 16, 319, 320, 4 * _SIZE, -1, 2**31 - 1, np.iinfo(kind).max, np.iinfo(kind).min], kind)
    rows = np.array([0, 5, 3, 3, 3, 3, 2, 2, 1, 1], np.int32)
    rows, positions = np.append(rows, [6, -1]).astype(np.int32), np.append(positions, [0, 0]).astype(kind)
    limits = np.array([1, 15, 17, 320, 400, 80, 5, 5, 5, 5, 5, 5], np.int32) if limited else None
    out = np.zeros(len(rows), np.int64)
    arguments = [table, *table.shape, rows, positions, limits, len(rows), _SIZE, out]
    macros = {**_MACROS, "POSITION_BYTES": positions.itemsize}
    host_kernels.launch("slots", macros, flat_grid(len(rows)), TABLE_THREADS, arguments)
    np.testing.assert_array_equal(out, table_reference.slots(table, rows, positions, _SIZE, limits))
    assert (out[[4, 5, 6, 7, 8, 9, 10, 11]] == -1).all()
    assert out[3] == int(table[3, 19]) * _SIZE + 15
    assert out[1] == (-1 if limited else int(table[5, 0]) * _SIZE + 15)


@pytest.mark.parametrize("count", [4, 1024, 2500])
def test_csr_of_a_batch(host_kernels: HostKernels, count: int, reverse: bool) -> None:
    table = _table(6, 20)
    rows, lengths = _batch(table, count)
    indptr, expected_indptr = np.full((2, count + 1), -9, np.int32)
    last, expected_last = np.full((2, count), -9, np.int32)
    table_reference.csr_indptr(table, rows, lengths, _SIZE, expected_indptr, expected_last)
    arguments: list[Any] = [rows, lengths, count, _SIZE, *table.shape, indptr, last]
    host_kernels.launch("csr_indptr", {"THREADS": SCAN_THREADS}, (1, 1), SCAN_THREADS, arguments, reverse=reverse)
    np.testing.assert_array_equal(indptr, expected_indptr)
    np.testing.assert_array_equal(last, expected_last)

    # One entry too few: the last one must be left out, not written past the end.
    indices, expected = np.full((2, int(indptr[-1]) - 1), -9, np.int32)
    table_reference.csr_indices(table, rows, indptr, expected)
    arguments = [table, *table.shape, rows, count, indptr, indices, len(indices)]
    grid = (table_grid(count, 20)[0], 100)
    host_kernels.launch("csr_indices", _MACROS, grid, TABLE_THREADS, arguments, reverse=reverse)
    np.testing.assert_array_equal(indices, expected)


def test_indptr_stops_at_the_largest_int32(host_kernels: HostKernels) -> None:
    """Lengths live on the device: the host cannot refuse a sum that int32 does not hold."""
    rows: npt.NDArray[np.int32] = np.zeros(3, np.int32)
    lengths, indptr, last = np.full(3, 2**31 - 1, np.int32), np.zeros(4, np.int32), np.zeros(3, np.int32)
    arguments = [rows, lengths, 3, 1, 1, 2**31, indptr, last]
    host_kernels.launch("csr_indptr", {"THREADS": SCAN_THREADS}, (1, 1), SCAN_THREADS, arguments)
    assert indptr.tolist() == [0, 2**31 - 1, 2**31 - 1, 2**31 - 1]
    assert last.tolist() == [1, 1, 1]
