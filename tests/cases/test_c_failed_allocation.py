"""C: an allocation that fails half-way must leave no block without an owner and no owner without its blocks."""

from __future__ import annotations

import pytest

from pagedkv import BlockAllocator, KVCacheManager
from pagedkv.errors import NeverFitsError, OutOfBlocksError

from .refused import available, refused, table


def test_c1_allocator_takes_nothing_when_it_cannot_take_all() -> None:
    allocator = BlockAllocator(3)
    (first,) = allocator.allocate(1).tolist()
    with pytest.raises(OutOfBlocksError) as caught:
        allocator.allocate(3)
    assert (caught.value.needed, caught.value.available, caught.value.pending) == (3, 2, 0)
    assert allocator.num_free_blocks == 2
    rest = allocator.allocate(2).tolist()
    allocator.free([first, *rest])
    assert allocator.num_free_blocks == 3


def _two_running() -> KVCacheManager:
    """S=[1,2,3,4] on two blocks and T=[9,8] on the third and last one."""
    manager = KVCacheManager(3, 2)
    manager.admit(1, [1, 2, 3, 4])
    manager.admit(2, [9, 8])
    manager.append([1, 2], [4, 2])
    assert available(manager) == 0
    return manager


def test_c1_failed_append_keeps_the_running_sequence() -> None:
    manager = _two_running()
    before = table(manager, 1)
    with refused(manager, OutOfBlocksError) as caught:
        manager.append([1], [1])
    assert (caught.value.needed, caught.value.available) == (1, 0)
    assert manager.seq_length(1) == 4
    assert table(manager, 1) == before
    manager.free([2])
    assert available(manager) == 1
    manager.append([1], [1])
    assert manager.seq_length(1) == 5
    assert len(table(manager, 1)) == 3
    assert available(manager) == 0
    manager.free([1])
    assert available(manager) == 3


@pytest.mark.parametrize("ids", [[1, 2], [2, 1]])
def test_c1_a_batch_that_fits_only_in_part_takes_nothing(ids: list[int]) -> None:
    manager = KVCacheManager(5, 2)
    manager.admit(1, [1, 2, 3, 4])
    manager.admit(2, [9, 8])
    manager.append([1, 2], [4, 2])
    with refused(manager, OutOfBlocksError) as caught:
        manager.append(ids, [3, 2])
    assert (caught.value.needed, caught.value.available) == (3, 2)
    assert manager.try_append(ids, [3, 2]) is None
    assert (manager.seq_length(1), manager.seq_length(2)) == (4, 2)
    manager.append(ids, [2, 2])
    assert available(manager) == 0


def test_c1_partial_serves_the_leading_run_and_takes_nothing_for_the_rest() -> None:
    manager = _two_running()
    manager.free([2])
    manager.admit(3, [], reserve=0)
    plan = manager.append([3, 1], [2, 1], partial=True)
    assert plan.served == 1
    assert plan.lengths.tolist() == [2]
    assert (manager.seq_length(3), manager.seq_length(1)) == (2, 4)
    assert available(manager) == 0
    nothing = manager.append([1, 3], [1, 0], partial=True)
    assert (nothing.served, nothing.step) == (0, plan.step + 1)
    assert nothing.slots.size == nothing.updates.size == nothing.copies.size == 0
    assert available(manager) == 0


def test_c1_failed_reserve() -> None:
    manager = _two_running()
    with refused(manager, OutOfBlocksError):
        manager.reserve([2, 1], [3, 6])
    assert manager.try_reserve([2, 1], [3, 6]) is None
    manager.reserve([2, 1], [2, 4])
    assert manager.capacity_tokens(1) == 4


def test_c1_failed_admission_leaves_no_sequence_and_no_row() -> None:
    manager = _two_running()
    manager.free([2])
    for count in range(1, 4):
        with refused(manager, OutOfBlocksError):
            manager.admit(2, [1, 2, 3])
        assert manager.try_admit(2, [1, 2, 3]) is None
        assert manager.get_stats().failed_admissions == 2 * count
    with refused(manager, NeverFitsError):
        manager.admit(2, list(range(7)))
    assert manager.get_stats().failed_admissions == 6
    assert manager.admit(2, [1, 2]).row == 1
    assert available(manager) == 0


def test_c1_copy_on_write_that_finds_no_block() -> None:
    """The copy is part of the need: counting only new table entries would let this write tear a shared block."""
    manager = KVCacheManager(2, 4)
    manager.admit(1, [1, 2, 3, 4, 5])
    manager.append([1], [5])
    last = table(manager, 1)[1]
    manager.allocator.increment_ref(last)
    with refused(manager, OutOfBlocksError):
        manager.append([1], [1])
    manager.allocator.free(last)
    plan = manager.append([1], [1])
    assert plan.copies.size == 0
    assert plan.slots.tolist() == [4 * last + 1]


def test_c1_never_fits_in_a_batch_serves_nobody() -> None:
    """Waiting cannot help this sequence, so even a partial append says so, whatever stands before it."""
    manager = KVCacheManager(3, 2)
    for seq_id in (1, 2):
        manager.admit(seq_id, [1, 2])
    manager.append([1, 2], [2, 2])
    for partial in (False, True):
        with refused(manager, NeverFitsError) as caught:
            manager.append([1, 2], [1, 5], partial=partial)
        assert (caught.value.needed, caught.value.total) == (4, 3)
    with refused(manager, NeverFitsError):
        manager.try_append([1, 2], [1, 5])
