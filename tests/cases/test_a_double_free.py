"""A: one release call that names a block more than once, and its siblings."""

from __future__ import annotations

import pytest

from pagedkv import BlockAllocator, BlockState, KVCacheManager
from pagedkv.errors import InvalidArgumentError, OutOfBlocksError, SequenceStateError

from .refused import available, refused, table


def test_a1_same_block_twice_with_two_references() -> None:
    allocator = BlockAllocator(4)
    (x,) = allocator.allocate(1).tolist()
    assert allocator.num_free_blocks == 3
    allocator.increment_ref(x)
    assert allocator.get_ref_count(x) == 2
    allocator.free([x, x])
    assert allocator.num_free_blocks == 4
    assert sorted(allocator.allocate(4).tolist()) == [0, 1, 2, 3]
    with pytest.raises(OutOfBlocksError):
        allocator.allocate(1)


def test_a1_same_block_twice_with_one_reference() -> None:
    allocator = BlockAllocator(4)
    (x,) = allocator.allocate(1).tolist()
    with pytest.raises(SequenceStateError):
        allocator.free([x, x])
    assert (allocator.get_ref_count(x), allocator.num_free_blocks) == (1, 3)
    allocator.free([x])
    assert allocator.num_free_blocks == 4


@pytest.mark.parametrize("order", [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_a1_drop_too_many_among_good_ones(order: tuple[int, ...]) -> None:
    """The good ids of the list must keep their references wherever the bad one stands."""
    allocator = BlockAllocator(4)
    blocks = allocator.allocate(2).tolist()
    with pytest.raises(SequenceStateError):
        allocator.free([blocks[index] for index in order])
    assert [allocator.get_ref_count(block) for block in blocks] == [1, 1]
    assert allocator.num_free_blocks == 2


def test_a1_second_free_of_a_block() -> None:
    allocator = BlockAllocator(4)
    (x,) = allocator.allocate(1).tolist()
    allocator.free(x)
    with pytest.raises(SequenceStateError):
        allocator.free(x)
    assert allocator.num_free_blocks == 4
    assert sorted(allocator.allocate(4).tolist()) == [0, 1, 2, 3]


def test_a1_free_of_a_block_never_handed_out() -> None:
    allocator = BlockAllocator(4)
    with pytest.raises(SequenceStateError):
        allocator.free(3)
    with pytest.raises(InvalidArgumentError):
        allocator.free(4)
    with pytest.raises(InvalidArgumentError):
        allocator.free(-1)
    assert allocator.num_free_blocks == 4


def test_a1_a_sequence_s_reference_is_not_the_caller_s_to_drop() -> None:
    manager = KVCacheManager(4, 2)
    manager.admit(1, [1, 2, 3])
    block = table(manager, 1)[0]
    with refused(manager, SequenceStateError):
        manager.allocator.free(block)
    manager.allocator.increment_ref(block)
    with refused(manager, SequenceStateError):
        manager.allocator.free([block, block])
    manager.allocator.free(block)
    assert manager.allocator.state(block) == BlockState.IN_USE
    manager.free([1])
    assert available(manager) == 4


def test_a1_second_free_of_a_sequence() -> None:
    manager = KVCacheManager(4, 2)
    manager.admit(1, [1, 2, 3])
    manager.admit(2, [1])
    manager.free([1])
    with refused(manager, SequenceStateError):
        manager.free([1])
    with refused(manager, SequenceStateError):
        manager.free([2, 1])
    with refused(manager, InvalidArgumentError):
        manager.free([2, 2])
    assert available(manager) == 3


def test_a1_second_free_while_the_blocks_are_pending() -> None:
    """The sequence is gone at once, although its blocks are not back yet."""
    manager = KVCacheManager(4, 2)
    manager.admit(1, [1, 2, 3])
    step = manager.append([1], [3]).step
    blocks = table(manager, 1)
    manager.free([1], after=step)
    with refused(manager, SequenceStateError):
        manager.free([1])
    with refused(manager, SequenceStateError):
        manager.allocator.free(blocks)
    with refused(manager, SequenceStateError):
        manager.allocator.increment_ref(blocks[0])
    manager.retire(step)
    manager.retire(step)
    assert available(manager) == 4


def test_a1_a_freed_id_can_be_registered_again() -> None:
    manager = KVCacheManager(4, 2)
    for _ in range(10):
        manager.admit(1, [1, 2, 3])
        with refused(manager, SequenceStateError):
            manager.admit(1, [1])
        manager.free([1])
    assert available(manager) == 4
