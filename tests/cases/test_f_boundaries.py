"""F: lengths exactly at, before and after a block boundary, and limits that are no multiple of the block size."""

from __future__ import annotations

import pytest

from pagedkv import KVCacheManager
from pagedkv.errors import InvalidArgumentError, NeverFitsError, OutOfBlocksError

from .refused import available, refused, table

GROWTHS = [(3, 1, 0), (4, 1, 1), (4, 4, 1), (4, 5, 2), (3, 6, 2), (0, 4, 1), (7, 2, 1), (8, 1, 1)]


@pytest.mark.parametrize(("length", "count", "new_blocks"), GROWTHS)
def test_f3_new_blocks_of_one_append(length: int, count: int, new_blocks: int) -> None:
    manager = KVCacheManager(8, 4)
    manager.admit(1, (), reserve=0)
    manager.append([1], [length])
    assert len(table(manager, 1)) == -(-length // 4)
    before = available(manager)
    plan = manager.append([1], [count])
    assert before - available(manager) == new_blocks
    assert len(plan.slots) == count
    assert plan.lengths.tolist() == [length + count]
    assert plan.updates.shape == (new_blocks, 3)


@pytest.mark.parametrize("block_size", [1, 2, 3, 4, 7, 16, 17])
def test_f3_the_same_for_every_length_and_block_size(block_size: int) -> None:
    manager = KVCacheManager(64, block_size)
    for length in range(2 * block_size + 2):
        for count in range(2 * block_size + 2):
            manager.admit(1, (), reserve=0)
            manager.append([1], [length])
            manager.append([1], [count])
            assert len(table(manager, 1)) == -(-(length + count) // block_size)
            manager.free([1])
    assert available(manager) == 64


def test_f3_two_boundaries_that_do_not_fit_append_nothing() -> None:
    manager = KVCacheManager(2, 4)
    manager.admit(1, [1, 2, 3, 4])
    manager.append([1], [4])
    assert len(table(manager, 1)) == 1
    with refused(manager, NeverFitsError):
        manager.append([1], [5])
    manager.allocator.allocate(1)
    with refused(manager, OutOfBlocksError) as caught:
        manager.append([1], [4])
    assert (caught.value.needed, caught.value.available) == (1, 0)
    manager.allocator.free(1)
    assert available(manager) == 1
    manager.append([1], [4])
    assert manager.seq_length(1) == 8


def test_f3_slots_run_across_the_boundary() -> None:
    manager = KVCacheManager(4, 4)
    manager.admit(1, (), reserve=0)
    manager.append([1], [3])
    plan = manager.append([1], [6])
    b0, b1, b2 = table(manager, 1)
    assert plan.slots.tolist() == [4 * b0 + 3, *range(4 * b1, 4 * b1 + 4), 4 * b2]


def test_f4_width_is_rounded_up() -> None:
    manager = KVCacheManager(8, 4, max_tokens=10)
    assert manager.table_width() == 3
    manager.admit(1, (), reserve=10)
    manager.append([1], [10])
    blocks = manager.block_table([1], width=manager.table_width())
    assert blocks.shape == (1, 3)
    slot = manager.slot_mapping([1], starts=[9], stops=[10]).tolist()
    assert slot == [4 * int(blocks[0, 2]) + 1]


def test_f4_one_token_over_the_limit_changes_nothing() -> None:
    manager = KVCacheManager(8, 4, max_tokens=10)
    manager.admit(1, (), reserve=10)
    manager.append([1], [10])
    assert manager.capacity_tokens(1) == 12
    for call in (
        lambda: manager.append([1], [1]),
        lambda: manager.append([1], [1], partial=True),
        lambda: manager.try_append([1], [1]),
        lambda: manager.reserve([1], [11]),
        lambda: manager.try_reserve([1], [11]),
        lambda: manager.commit([1], [11]),
        lambda: manager.commit([1], [12]),
        lambda: manager.admit(2, (), reserve=11),
        lambda: manager.admit(2, list(range(11)), reserve=0),
        lambda: manager.try_admit(2, list(range(11))),
    ):
        with refused(manager, InvalidArgumentError):
            call()


def test_f4_width_is_a_multiple_of_what_the_kernel_needs() -> None:
    manager = KVCacheManager(400, 32, max_tokens=9416)
    assert manager.table_width() == 295
    assert manager.table_width(multiple_of=4) == 296
    assert manager.table_width(multiple_of=295) == 295
    assert manager.table_width(multiple_of=296) == 296
    for bad in (0, -1):
        with refused(manager, InvalidArgumentError):
            manager.table_width(multiple_of=bad)


def test_f4_limit_that_fills_the_last_column_exactly() -> None:
    manager = KVCacheManager(700, 128, max_tokens=80000)
    assert manager.table_width() == 625
    manager.admit(1, (), reserve=80000)
    manager.append([1], [80000])
    with refused(manager, InvalidArgumentError):
        manager.append([1], [1])
    assert manager.block_table([1], width=625).shape == (1, 625)
    with refused(manager, InvalidArgumentError):
        manager.block_table([1], width=624)


def test_f4_without_a_limit_the_pool_is_the_limit() -> None:
    manager = KVCacheManager(5, 4)
    assert manager.table_width() == 5
    assert manager.table_width(multiple_of=4) == 8


def test_f4_set_apart_blocks_are_not_sold() -> None:
    """13 blocks with one kept back: here the pool's N never counts scratch blocks."""
    manager = KVCacheManager(12, 8192, scratch_blocks=1)
    assert manager.get_stats().total_blocks == 12
    for tokens in (12 * 8192 + 1, 106496):
        with refused(manager, NeverFitsError):
            manager.admit(1, (), reserve=tokens)
    manager.admit(1, (), reserve=12 * 8192)
    assert available(manager) == 0
    assert max(table(manager, 1)) == 11
