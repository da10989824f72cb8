"""L2: kernels read padding before they look at lengths, and nothing may lie outside a sequence's own row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pagedkv import KVCacheManager
from pagedkv.errors import InvalidArgumentError

from .refused import refused, table


def _two_sequences() -> KVCacheManager:
    """S0: 5 tokens on blocks [3, 7]; S1: 2 tokens on block [5]."""
    manager = KVCacheManager(8, 4)
    manager.allocator.allocate(8)
    manager.allocator.free([3, 7, 5])
    for seq_id, tokens in ((0, 5), (1, 2)):
        manager.admit(seq_id, (), reserve=tokens)
        manager.append([seq_id], [tokens])
    assert (table(manager, 0), table(manager, 1)) == ([3, 7], [5])
    return manager


def test_l2_padding_of_a_block_table_is_readable() -> None:
    manager = _two_sequences()
    out = np.full((4, 3), -7, np.int32)
    assert manager.block_table([0, 1], out=out) is out
    assert out.tolist() == [[3, 7, 0], [5, 0, 0], [0, 0, 0], [0, 0, 0]]
    assert manager.seq_lens([0, 1], out=np.full(4, -7, np.int32)).tolist() == [5, 2, 0, 0]
    fresh = manager.block_table([0, 1], width=3)
    assert fresh.tolist() == [[3, 7, 0], [5, 0, 0]]
    assert fresh.dtype == np.int32
    assert fresh.flags.c_contiguous


def test_l2_slot_mappings_are_padded_with_minus_one() -> None:
    manager = _two_sequences()
    slots = manager.slot_mapping([0, 1], out=np.zeros(10, np.int64))
    assert slots.tolist() == [12, 13, 14, 15, 28, 20, 21, -1, -1, -1]
    assert slots.dtype == np.int64


def test_l2_minus_one_in_a_table_only_on_request() -> None:
    manager = _two_sequences()
    assert manager.block_table([1], width=3, pad=-1).tolist() == [[5, -1, -1]]
    assert manager.block_table([1], width=3, pad=6).tolist() == [[5, 6, 6]]
    bad_ids: list[Any] = [-2, 8, 2**31, 2**32, 1.5]
    for bad in bad_ids:
        with refused(manager, InvalidArgumentError):
            manager.block_table([1], width=3, pad=bad)


def test_l2_scratch_block_is_the_padding_where_there_is_one() -> None:
    manager = KVCacheManager(8, 4, scratch_blocks=2)
    manager.admit(1, (), reserve=5)
    manager.append([1], [5])
    assert manager.block_table([1], width=4).tolist() == [[0, 1, 8, 8]]
    assert manager.block_table([1], width=4, pad=9).tolist() == [[0, 1, 9, 9]]
    with refused(manager, InvalidArgumentError):
        manager.block_table([1], width=4, pad=10)


@pytest.mark.parametrize(("start", "stop"), [(5, 6), (4, 5), (0, 5), (3, 2), (-1, 1)])
def test_l2_no_slot_outside_a_sequence_s_own_blocks(start: int, stop: int) -> None:
    """slot(5) of S1 would lie in column 1 of a row that has one live column: a neighbor's memory."""
    manager = _two_sequences()
    with refused(manager, InvalidArgumentError):
        manager.slot_mapping([1], starts=[start], stops=[stop])


@pytest.mark.parametrize(
    "out",
    [
        np.zeros((1, 3), np.int32),
        np.zeros((2, 1), np.int32),
        np.zeros((2, 3), np.int64),
        np.zeros((2, 3), np.float32),
        np.zeros((3, 2), np.int32).T,
        np.zeros((2, 6), np.int32)[:, ::2],
        np.zeros(6, np.int32),
        np.zeros((2, 3, 1), np.int32),
        np.zeros((2, 3), ">i4"),
        np.broadcast_to(np.zeros(3, np.int32), (2, 3)),
        [[0, 0, 0], [0, 0, 0]],
    ],
)
def test_l2_targets_that_cannot_take_a_block_table(out: Any) -> None:
    """Converted or strided targets would be filled as a copy, and the caller would read the old contents."""
    manager = _two_sequences()
    with refused(manager, InvalidArgumentError):
        manager.block_table([0, 1], out=out)


def test_l2_read_only_targets_are_not_written() -> None:
    manager = _two_sequences()
    tables, slots = np.zeros((2, 3), np.int32), np.zeros(10, np.int64)
    for target in (tables, slots):
        target.flags.writeable = False
    with refused(manager, InvalidArgumentError):
        manager.block_table([0, 1], out=tables)
    with refused(manager, InvalidArgumentError):
        manager.slot_mapping([0, 1], out=slots)
    assert not tables.any()
    assert not slots.any()


def test_l2_csr_of_empty_and_padded_batches() -> None:
    manager = _two_sequences()
    manager.admit(2, (), reserve=0)
    tables = manager.csr([0, 2, 1])
    assert tables.indptr.tolist() == [0, 2, 2, 3]
    assert tables.indices.tolist() == [3, 7, 5]
    assert tables.last_page_len.tolist() == [1, 0, 2]
    empty = manager.csr([])
    assert (empty.indptr.tolist(), empty.indices.tolist(), empty.last_page_len.tolist()) == ([0], [], [])


@pytest.mark.parametrize(("tokens", "last"), [(1, 1), (3, 3), (4, 4), (5, 1), (8, 4)])
def test_l2_last_page_length_is_one_to_block_size(tokens: int, last: int) -> None:
    manager = KVCacheManager(8, 4)
    manager.admit(1, (), reserve=32)
    manager.append([1], [tokens])
    tables = manager.csr([1])
    assert tables.last_page_len.tolist() == [last]
    assert len(tables.indices) == -(-tokens // 4), "reserved blocks are no pages of the batch"
