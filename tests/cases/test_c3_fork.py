"""C3: a fork of n children happens as a whole or not at all; it needs no block, so only the writes can fail."""

from __future__ import annotations

import pytest

from pagedkv import KVCacheManager
from pagedkv.errors import InvalidArgumentError, OutOfBlocksError, SequenceStateError

from .contents import refs
from .refused import available, refused, table

S, CHILDREN = 1, [11, 12, 13, 14]


def _forked(block_size: int = 4, num_blocks: int = 5) -> KVCacheManager:
    """S of one full block and a tail of half a block, and four children."""
    manager = KVCacheManager(num_blocks, block_size)
    tokens = block_size + block_size // 2
    manager.admit(S, range(tokens))
    manager.append([S], [tokens])
    manager.fork(S, CHILDREN)
    return manager


def test_c3_four_children_and_three_free_blocks() -> None:
    manager = _forked()
    b0, b1 = table(manager, S)
    assert refs(manager, b0, b1) == [5, 5]
    assert (manager.get_stats().allocated_blocks, available(manager)) == (2, 3)

    for left, child in zip((2, 1, 0), CHILDREN, strict=False):
        plan = manager.append([child], [1])
        assert plan.copies.tolist() == [[b1, table(manager, child)[1]]]
        assert available(manager) == left
    assert refs(manager, b0, b1) == [5, 2]

    with refused(manager, OutOfBlocksError) as caught:
        manager.append([14], [1])
    assert (caught.value.needed, caught.value.available) == (1, 0)
    assert (manager.seq_length(14), table(manager, 14)) == (6, [b0, b1])
    assert refs(manager, b1) == [2]

    manager.free([S])
    assert refs(manager, b0, b1) == [4, 1]
    plan = manager.append([14], [1])
    assert plan.copies.size == 0
    assert plan.slots.tolist() == [4 * b1 + 2]
    assert manager.get_stats().cow_copies == 3
    assert available(manager) == 0
    manager.free([14, 12, 11, 13])
    assert available(manager) == 5


@pytest.mark.parametrize("block_size", [2, 4, 6, 16])
def test_c3_the_same_in_one_batch(block_size: int) -> None:
    """Four of five holders write: four copies; the fifth would write in place, so with S it is four again."""
    manager = _forked(block_size)
    for writers in (CHILDREN, [*CHILDREN, S], [S, *CHILDREN]):
        with refused(manager, OutOfBlocksError) as caught:
            manager.append(writers, [1] * len(writers))
        assert (caught.value.needed, caught.value.available) == (4, 3)
    plan = manager.append(CHILDREN, [1] * 4, partial=True)
    assert (plan.served, len(plan.copies), available(manager)) == (3, 3, 0)
    manager.free([S])
    assert manager.append([14], [1]).copies.size == 0
    assert manager.get_stats().cow_copies == 3
    assert available(manager) == 0


def test_c3_a_free_block_more_and_all_five_write() -> None:
    manager = _forked(num_blocks=6)
    tail = table(manager, S)[1]
    plan = manager.append([*CHILDREN, S], [1] * 5)
    assert plan.copies[:, 0].tolist() == [tail] * 4
    assert table(manager, S)[1] == tail
    assert len({table(manager, seq_id)[1] for seq_id in (S, *CHILDREN)}) == 5
    assert available(manager) == 0


def test_c3_the_tail_is_full_so_the_children_take_blocks_and_copy_nothing() -> None:
    manager = KVCacheManager(5, 4)
    manager.admit(S, range(8))
    manager.append([S], [8])
    manager.fork(S, CHILDREN)
    with refused(manager, OutOfBlocksError) as caught:
        manager.append(CHILDREN, [1] * 4)
    assert (caught.value.needed, caught.value.available) == (4, 3)
    plan = manager.append(CHILDREN[:3], [1] * 3)
    assert (plan.copies.size, available(manager)) == (0, 0)
    assert refs(manager, *table(manager, S)) == [5, 5]


def test_c3_a_full_pool_forks_all_the_same() -> None:
    manager = KVCacheManager(2, 4)
    manager.admit(S, range(6))
    manager.append([S], [6])
    assert available(manager) == 0
    manager.fork(S, CHILDREN)
    assert available(manager) == 0
    assert manager.get_stats().active_sequences == 5


@pytest.mark.parametrize("children", [[21, 22, 11], [11, 21, 22], [21, 21], [21, 22, 21], [21, S], [21, 21, S]])
def test_c3_one_bad_child_and_none_exists(children: list[int]) -> None:
    manager = _forked()
    error = InvalidArgumentError if {S, 11}.isdisjoint(children) else SequenceStateError
    with refused(manager, error):
        manager.fork(S, children)
    with refused(manager, error):
        manager.fork(CHILDREN[0], children)
    assert 21 not in manager
    assert 22 not in manager


def test_c3_a_fork_of_a_fork_shares_with_all() -> None:
    manager = _forked(num_blocks=6)
    b0, b1 = table(manager, S)
    manager.append([11], [1])
    manager.fork(11, [31, 32])
    own = table(manager, 11)[1]
    assert refs(manager, b0, b1, own) == [7, 4, 3]
    plan = manager.append([31, 14, 32, 11], [1] * 4)
    assert plan.copies[:, 0].tolist() == [own, b1, own], "the last holder of a block writes in place"
    assert table(manager, 11)[1] == own
    assert refs(manager, b0, b1, own) == [7, 3, 1]
    assert available(manager) == 0
