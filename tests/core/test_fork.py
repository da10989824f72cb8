"""What a child is right after a fork, what its parent keeps for itself, and what plans say about the child's row."""

from __future__ import annotations

import numpy as np
import pytest

from cases.refused import refused, table
from pagedkv import KVCacheManager
from pagedkv.errors import InvalidArgumentError, OutOfBlocksError


def _manager() -> KVCacheManager:
    """N=8, B=4, sequence 1 of six tokens and sequence 2 of three."""
    manager = KVCacheManager(8, 4)
    manager.admit(1, range(6))
    manager.admit(2, range(3))
    manager.append([1, 2], [6, 3])
    return manager


def test_a_fork_takes_no_block_and_no_step() -> None:
    manager = _manager()
    before = manager.get_stats()
    manager.fork_sequence(1, 7)
    after = manager.get_stats()
    assert manager.last_step == 1
    assert after.allocated_blocks == before.allocated_blocks
    assert after.peak_allocated_blocks == before.peak_allocated_blocks
    assert (after.active_sequences, after.logical_blocks, after.saved_blocks) == (3, 5, 2)


def test_what_the_parent_only_reserved_is_not_shared() -> None:
    manager = KVCacheManager(8, 4)
    manager.admit(1, range(6), reserve=20)
    manager.append([1], [6])
    manager.fork(1, [7, 8])
    reserved = table(manager, 1)
    assert (len(reserved), table(manager, 7), table(manager, 8)) == (5, reserved[:2], reserved[:2])
    assert (manager.capacity_tokens(1), manager.capacity_tokens(7)) == (20, 8)
    assert [manager.allocator.get_ref_count(block) for block in reserved] == [3, 3, 1, 1, 1]
    assert manager.append([1], [14]).copies[:, 0].tolist() == [reserved[1]]
    assert table(manager, 1)[2:] == reserved[2:], "the parent goes on in its own room"


@pytest.mark.parametrize("reserve", [0, 8])
def test_an_empty_parent(reserve: int) -> None:
    manager = KVCacheManager(8, 4)
    manager.admit(1, range(3), reserve=reserve)
    manager.fork(1, [7])
    assert (table(manager, 7), manager.seq_length(7), manager.capacity_tokens(7)) == ([], 0, 0)
    plan = manager.append([7, 1], [3, 3])
    assert plan.copies.size == 0
    assert set(table(manager, 7)).isdisjoint(table(manager, 1))
    manager.commit([7, 1], [3, 3], tokens=[])
    manager.reorder([1, 7], [1, 0])
    manager.free([1, 7])
    manager.check()


def test_a_fork_in_the_middle_of_a_prompt() -> None:
    """The child knows the prompt's other ids too, so it goes on by count and then with ids of its own."""
    manager = KVCacheManager(8, 4)
    manager.admit(1, range(9))
    manager.append([1], [5])
    manager.fork(1, [7])
    for seq_id in (7, 1):
        with refused(manager, InvalidArgumentError):
            manager.append([seq_id], [1], tokens=[5])
        manager.append([seq_id], [4])
        manager.commit([seq_id], [9], tokens=[])
        manager.append([seq_id], [1], tokens=[99])
    assert table(manager, 1)[0] == table(manager, 7)[0]
    assert set(table(manager, 1)[1:]).isdisjoint(table(manager, 7)[1:])


def test_a_child_has_the_cursors_of_its_parent() -> None:
    manager = _manager()
    manager.commit([1], [4])
    manager.fork(1, [7])
    assert (manager.seq_length(7), manager.committed_length(7)) == (6, 4)
    manager.commit([7], [6])
    assert (manager.committed_length(1), manager.committed_length(7)) == (4, 6)
    manager.truncate([1], [2])
    assert (manager.committed_length(1), manager.committed_length(7), manager.seq_length(7)) == (2, 6, 6)


def test_rows_of_children_are_the_lowest_free_in_argument_order() -> None:
    manager = _manager()
    manager.admit(3, ())
    manager.free([2])
    manager.fork(1, [9, 8, 7])
    assert [manager.row(seq_id) for seq_id in (1, 3, 9, 8, 7)] == [0, 2, 1, 3, 4]


def test_many_children() -> None:
    """Rows, map and table room for hundreds at once; all of them end in one batch."""
    manager = _manager()
    children = np.arange(100, 5100)
    manager.fork(1, children)
    assert manager.allocator.get_ref_count(table(manager, 1)[0]) == 5001
    assert manager.row(5099) == 5001
    with refused(manager, OutOfBlocksError) as caught:
        manager.append(children, np.ones(5000, np.int32))
    assert (caught.value.needed, caught.value.available) == (5000, 5)
    manager.check()
    manager.free(children)
    assert manager.allocator.get_ref_count(table(manager, 1)[0]) == 1
    manager.check()


def test_the_next_plan_that_names_a_child_reports_its_whole_row() -> None:
    manager = _manager()
    manager.fork(1, [7, 8, 9])
    b0, b1 = table(manager, 1)
    plan = manager.reserve([7], [0])
    assert plan.updates.tolist() == [[2, 0, b0], [2, 1, b1]]
    plan = manager.append([1, 7, 8], [0, 1, 1])
    c7, c8 = table(manager, 7)[1], table(manager, 8)[1]
    assert plan.updates.tolist() == [[2, 1, c7], [3, 0, b0], [3, 1, c8]]
    plan = manager.reorder([1, 9], [0, 1])
    assert plan.updates.tolist() == [[4, 0, b0], [4, 1, b1]]
    assert manager.append([1, 7, 8, 9], [0] * 4).updates.size == 0


@pytest.mark.parametrize("keep_blocks", [False, True])
def test_a_shared_sequence_cut_to_nothing(keep_blocks: bool) -> None:
    manager = _manager()
    manager.fork(1, [7])
    shared = table(manager, 1)
    manager.truncate([1], [0], keep_blocks=keep_blocks)
    assert (manager.seq_length(1), table(manager, 1)) == (0, shared if keep_blocks else [])
    assert (manager.seq_length(7), table(manager, 7)) == (6, shared)
    assert [manager.allocator.block(block).fill for block in shared] == [4, 2]
    plan = manager.append([1], [1])
    assert plan.copies.tolist() == ([[shared[0], table(manager, 1)[0]]] if keep_blocks else [])
    assert manager.append([7], [1]).copies.size == (2 if keep_blocks else 0)
    manager.free([7, 1])
    manager.check()
