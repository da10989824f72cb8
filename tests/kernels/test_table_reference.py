"""The NumPy twins of the table kernels against figures by hand (case L2) and against the native manager's exports."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pagedkv.kernels import table_reference
from pagedkv.manager import KVCacheManager

_SIZE = 4


def _case_l2() -> tuple[table_reference.Int32s, table_reference.Int32s, table_reference.Int32s]:
    """S0: 5 tokens in blocks 3, 7; S1: 2 tokens in block 5; behind them what former owners left."""
    table = np.array([[3, 7, 6], [5, 1, 2]], np.int32)
    return table, np.array([0, 1, -1, -1], np.int32), np.array([5, 2, 0, 0], np.int32)


def test_a_padded_batch_holds_readable_ids() -> None:
    table, rows, lengths = _case_l2()
    out = np.full((4, 3), -1, np.int32)
    table_reference.gather_table(table, rows, lengths, _SIZE, out, 0)
    assert out.tolist() == [[3, 7, 0], [5, 0, 0], [0, 0, 0], [0, 0, 0]]


def test_slots_of_every_position() -> None:
    table, _, _ = _case_l2()
    rows = np.array([0, 0, 0, 0, 0, 1, 1, -1, -1, -1], np.int32)
    positions = np.array([0, 1, 2, 3, 4, 0, 1, 0, 1, 2], np.int32)
    found = table_reference.slots(table, rows, positions, _SIZE)
    assert found.dtype == np.int64
    assert found.tolist() == [12, 13, 14, 15, 28, 20, 21, -1, -1, -1]


def test_a_position_beyond_the_row_has_no_slot() -> None:
    """Position 5 of S1 would be 4 * 1 + 1 in a former owner's block; its limit says that it is nobody's."""
    table, _, _ = _case_l2()
    row, position = np.array([1], np.int32), np.array([5], np.int64)
    assert table_reference.slots(table, row, position, _SIZE, np.array([2], np.int32)).tolist() == [-1]
    assert table_reference.slots(table, row, np.array([12], np.int64), _SIZE).tolist() == [-1]


def test_slots_beyond_32_bits() -> None:
    table = np.full((1, 1), 2**31 - 1, np.int32)
    found = table_reference.slots(table, np.zeros(1, np.int32), np.array([15]), 16)
    assert found.tolist() == [(2**31 - 1) * 16 + 15]


@given(st.lists(st.integers(0, 30), min_size=1, max_size=8), st.integers(0, 3))
def test_the_twins_agree_with_the_manager(lengths: list[int], padding: int) -> None:
    manager = KVCacheManager(64, _SIZE, max_tokens=32)
    ids = np.arange(len(lengths))
    for seq_id in ids.tolist():
        manager.admit(seq_id, (), reserve=0)
    plan = manager.append(ids, lengths)
    table = np.full((len(ids) + 2, manager.table_width()), 63, np.int32)
    table[plan.updates[:, 0], plan.updates[:, 1]] = plan.updates[:, 2]
    rows = np.append(plan.rows, [-1] * padding).astype(np.int32)
    counts = np.append(plan.lengths, [0] * padding).astype(np.int32)

    dense, expected = np.full((2, len(rows), table.shape[1]), -9, np.int32)
    table_reference.gather_table(table, rows, counts, _SIZE, dense, 0)
    manager.block_table(ids, out=expected)
    np.testing.assert_array_equal(dense, expected)

    indptr, last = np.zeros(len(rows) + 1, np.int32), np.zeros(len(rows), np.int32)
    table_reference.csr_indptr(table, rows, counts, _SIZE, indptr, last)
    indices = np.zeros(int(indptr[-1]), np.int32)
    table_reference.csr_indices(table, rows, indptr, indices)
    csr = manager.csr(ids)
    np.testing.assert_array_equal(indptr[: len(ids) + 1], csr.indptr)
    np.testing.assert_array_equal(indices, csr.indices)
    np.testing.assert_array_equal(last[: len(ids)], csr.last_page_len)

    owner = np.repeat(plan.rows, lengths)
    positions = np.concatenate([np.arange(length) for length in lengths])
    np.testing.assert_array_equal(table_reference.slots(table, owner, positions, _SIZE), plan.slots)
