"""G3: a parent that ends takes nothing away from its children, whoever ends first."""

from __future__ import annotations

from itertools import permutations

import pytest

from pagedkv import BlockState, KVCacheManager
from pagedkv.errors import SequenceStateError

from .contents import Contents, refs
from .refused import available, refused, table

S, C, D = 1, 2, 3
EIGHT = [1, 2, 3, 4, 5, 6, 7, 8]


def _forked(*children: int, tokens: int = 8) -> tuple[Contents, list[int]]:
    """N=4, B=4, S of that many tokens and its children."""
    held = Contents(4, 4)
    held.start(S, EIGHT[:tokens])
    held.cache.fork(S, children)
    return held, table(held.manager, S)


@pytest.mark.parametrize("published", [False, True])
def test_g3_the_child_reads_on_and_a_second_free_is_refused(published: bool) -> None:
    held, blocks = _forked(C)
    manager = held.manager
    if published:
        manager.allocator.publish(blocks)
    manager.free([S])
    assert refs(manager, *blocks) == [1, 1]
    assert (manager.get_stats().allocated_blocks, available(manager)) == (2, 2)
    assert (held.of(C), table(manager, C)) == (EIGHT, blocks)
    with refused(manager, SequenceStateError):
        manager.free([S])
    with refused(manager, SequenceStateError):
        manager.free([C, S])
    manager.free([C])
    assert available(manager) == 4
    stats = manager.get_stats()
    assert (stats.cached_blocks, stats.clean_blocks) == ((2, 2) if published else (0, 4))


@pytest.mark.parametrize("order", list(permutations((S, C, D))))
@pytest.mark.parametrize("batches", [(1, 1, 1), (2, 1), (1, 2), (3,)])
def test_g3_any_order_and_any_batch(order: tuple[int, ...], batches: tuple[int, ...]) -> None:
    """The last holder gives the blocks back, deepest first: the head is handed out first again."""
    held, blocks = _forked(C, D)
    manager, left = held.manager, list(order)
    for size in batches:
        ended, left = left[:size], left[size:]
        manager.free(ended)
        assert available(manager) == (2 if left else 4)
        assert all(held.of(seq_id) == EIGHT for seq_id in left)
    assert manager.allocator.allocate(2).tolist() == blocks


@pytest.mark.parametrize("order", list(permutations((S, C, D))))
def test_g3_one_batch_is_one_release_a_sequence_in_argument_order(order: tuple[int, ...]) -> None:
    """Own tails go back with their sequence, what is common with the last one: seen in the order of reuse."""
    held, blocks = _forked(C, D, tokens=4)
    manager = held.manager
    held.append([S, C, D], [9, 9, 9])
    own = {seq_id: table(manager, seq_id)[1] for seq_id in (S, C, D)}
    manager.free(order)
    released = [own[order[0]], own[order[1]], own[order[2]], blocks[0]]
    assert manager.allocator.allocate(4).tolist() == released[::-1]


def test_g3_the_row_of_the_parent_goes_to_another_and_the_child_keeps_its_own() -> None:
    held, blocks = _forked(C)
    manager = held.manager
    manager.free([S])
    assert manager.admit(7, [], reserve=0).row == 0
    held.cache.append([7], [4])
    assert set(table(manager, 7)).isdisjoint(blocks)
    assert (manager.row(C), held.of(C)) == (1, EIGHT)
    manager.fork(C, [S])
    assert (manager.row(S), refs(manager, *blocks)) == (2, [2, 2])


def test_g3_a_fork_of_the_fork_outlives_both() -> None:
    held, blocks = _forked(C, tokens=6)
    manager = held.manager
    held.cache.fork(C, [D])
    manager.free([C])
    manager.free([S])
    plan = held.append([D], [9])
    assert plan.copies.size == 0
    assert (held.of(D), table(manager, D)) == ([*EIGHT[:6], 9], blocks)


@pytest.mark.parametrize(("first", "second"), [(5, 3), (3, 5)])
@pytest.mark.parametrize("together", [False, True])
def test_g3_blocks_wait_for_the_latest_step_that_any_holder_named(first: int, second: int, together: bool) -> None:
    """Whoever drops the last reference: the kernels of the later step may still touch the block."""
    held, blocks = _forked(C, D)
    manager = held.manager
    manager.admit(7, ())
    while manager.last_step < 6:
        manager.append([7], [0])
    manager.free([S], after=first)
    if together:
        manager.free([C, D], after=second)
    else:
        manager.free([C])
        manager.free([D], after=second)
    for step in (2, 3, 4):
        manager.retire(step)
        assert [manager.allocator.state(block) for block in blocks] == [BlockState.PENDING] * 2
        assert (manager.get_stats().pending_blocks, available(manager)) == (2, 2)
    manager.retire(5)
    assert (manager.get_stats().pending_blocks, available(manager)) == (0, 4)


def test_g3_a_step_that_retires_before_the_last_holder_ends_holds_nothing_back() -> None:
    held, blocks = _forked(C)
    manager = held.manager
    manager.free([S], after=manager.last_step)
    manager.retire(manager.last_step)
    assert refs(manager, *blocks) == [1, 1]
    manager.free([C])
    assert available(manager) == 4


def test_g3_a_copy_on_write_drops_no_wait_that_another_holder_named() -> None:
    """S is read by step n; C leaves the shared tail by a copy, so the tail has no holder, but work in flight."""
    manager = KVCacheManager(4, 4)
    manager.admit(S, EIGHT[:6])
    step = manager.append([S], [6]).step
    manager.fork(S, [C, D])
    tail = table(manager, S)[1]
    manager.free([S], after=step)
    assert manager.append([C], [1]).copies[:, 0].tolist() == [tail]
    manager.truncate([D], [4])
    assert manager.allocator.state(tail) == BlockState.PENDING
    manager.retire(step)
    assert manager.allocator.state(tail) == BlockState.CLEAN
    manager.check()
