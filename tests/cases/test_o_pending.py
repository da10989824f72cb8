"""O: blocks given back while a step still runs are nobody's until that step has finished (the bookkeeping half)."""

from __future__ import annotations

import pytest

from pagedkv import BlockState, KVCacheManager
from pagedkv.errors import InvalidArgumentError, OutOfBlocksError, SequenceStateError

from .refused import available, refused, table


def _freed_behind_a_step() -> tuple[KVCacheManager, int, list[int]]:
    """S on both blocks of the pool, given back behind the step that writes them."""
    manager = KVCacheManager(2, 2)
    manager.admit(1, [1, 2, 3, 4])
    step = manager.append([1], [4]).step
    blocks = table(manager, 1)
    manager.free([1], after=step)
    return manager, step, blocks


def test_o1_pending_blocks_are_not_handed_out() -> None:
    manager, step, blocks = _freed_behind_a_step()
    stats = manager.get_stats()
    assert (stats.pending_blocks, stats.free_blocks, stats.allocated_blocks) == (2, 0, 2)
    assert [manager.allocator.state(block) for block in blocks] == [BlockState.PENDING] * 2
    with refused(manager, OutOfBlocksError) as caught:
        manager.allocator.allocate(1)
    assert (caught.value.needed, caught.value.available, caught.value.pending) == (1, 0, 2)
    assert manager.try_admit(2, [1]) is None
    manager.retire(step)
    assert manager.get_stats().pending_blocks == 0
    assert available(manager) == 2
    assert sorted(manager.allocator.allocate(2).tolist()) == [0, 1]


def test_o1_what_is_coming_is_told_so_that_nobody_else_is_preempted() -> None:
    """Two running sequences of two blocks fill the pool; one is preempted behind the running step."""
    manager = KVCacheManager(4, 2)
    for seq_id in (1, 2):
        manager.admit(seq_id, [1, 2, 3, 4])
    step = manager.append([1, 2], [4, 4]).step
    manager.free([2], after=step)
    with refused(manager, OutOfBlocksError) as caught:
        manager.append([1], [1])
    assert caught.value.pending >= caught.value.needed - caught.value.available
    manager.retire(step)
    manager.append([1], [1])
    assert available(manager) == 1


def test_o1_steps_retire_in_order_whatever_order_they_were_named_in() -> None:
    manager = KVCacheManager(3, 2)
    steps = []
    for seq_id in (1, 2, 3):
        manager.admit(seq_id, [1])
        steps.append(manager.append([seq_id], [1]).step)
    for seq_id, step in zip((1, 2, 3), (steps[2], steps[0], steps[1]), strict=True):
        manager.free([seq_id], after=step)
    assert manager.get_stats().pending_blocks == 3
    for done, step in enumerate(steps, start=1):
        manager.retire(step)
        assert available(manager) == done


def test_o1_retiring_a_step_retires_all_before_it() -> None:
    manager = KVCacheManager(3, 2)
    for seq_id in (1, 2, 3):
        manager.admit(seq_id, [1])
        manager.free([seq_id], after=manager.append([seq_id], [1]).step)
    manager.retire(2)
    assert (manager.get_stats().pending_blocks, manager.retired_step) == (1, 2)
    manager.retire(1)
    assert manager.retired_step == 2
    manager.retire(3)
    assert available(manager) == 3


def test_o1_a_step_that_has_finished_holds_nothing_back() -> None:
    manager = KVCacheManager(2, 2)
    manager.admit(1, [1])
    step = manager.append([1], [1]).step
    manager.retire(step)
    manager.free([1], after=step)
    assert available(manager) == 2


@pytest.mark.parametrize("step", [2, 10**9, 2**62, -1])
def test_o1_a_step_that_was_never_planned(step: int) -> None:
    """Blocks behind it would never come back; a retire of it would give back what still runs."""
    manager = KVCacheManager(2, 2)
    manager.admit(1, [1])
    assert manager.append([1], [1]).step == 1
    with refused(manager, InvalidArgumentError):
        manager.free([1], after=step)
    with refused(manager, InvalidArgumentError):
        manager.retire(step)


def test_o1_id_and_row_are_free_at_once_the_blocks_are_not() -> None:
    manager = KVCacheManager(4, 2)
    manager.admit(1, [1, 2, 3, 4])
    step = manager.append([1], [4]).step
    old = table(manager, 1)
    manager.free([1], after=step)
    assert 1 not in manager
    assert manager.admit(1, [1, 2, 3]).row == 0
    manager.append([1], [3])
    assert not set(old) & set(table(manager, 1))
    manager.retire(step)
    assert available(manager) == 2


def test_o1_published_pending_blocks_become_findable_free_ones() -> None:
    manager, step, blocks = _freed_behind_a_step()
    manager.retire(step)
    manager.admit(1, [1, 2, 3, 4])
    step = manager.append([1], [4]).step
    manager.allocator.publish(table(manager, 1))
    manager.free([1], after=step)
    assert manager.get_stats().pending_blocks == 2
    manager.retire(step)
    assert [manager.allocator.state(block) for block in blocks] == [BlockState.CACHED] * 2
    assert available(manager) == 2


@pytest.mark.parametrize("pinned_while", ["in use", "pending"])
def test_o1_dropping_the_last_pin_does_not_overtake_the_step(pinned_while: str) -> None:
    """Whoever drops the last reference: the block waits for the step that a holder named."""
    manager = KVCacheManager(2, 2)
    manager.admit(1, [1, 2])
    step = manager.append([1], [2]).step
    (block,) = table(manager, 1)
    manager.allocator.publish(block)
    if pinned_while == "in use":
        manager.allocator.increment_ref(block)
    manager.free([1], after=step)
    if pinned_while == "pending":
        manager.allocator.increment_ref(block)
    assert manager.allocator.state(block) == BlockState.IN_USE
    manager.allocator.free(block)
    assert manager.allocator.state(block) == BlockState.PENDING
    assert available(manager) == 1
    manager.retire(step)
    assert manager.allocator.state(block) == BlockState.CACHED
    assert available(manager) == 2


def test_o1_the_latest_of_two_steps_counts() -> None:
    """A block's two lives must not be mixed up either: the next owner waits for nobody."""
    manager = KVCacheManager(1, 2)
    manager.admit(1, [1, 2])
    first = manager.append([1], [1]).step
    manager.append([1], [1])
    manager.allocator.increment_ref(0)
    manager.free([1], after=first)
    manager.retire(first)
    manager.allocator.free(0)
    assert available(manager) == 1
    manager.admit(1, [1])
    manager.free([1])
    assert available(manager) == 1


def test_o1_every_plan_takes_a_step_even_one_that_serves_nobody() -> None:
    manager = KVCacheManager(1, 1)
    manager.admit(1, [1])
    manager.admit(2, [])
    steps = [
        manager.append([1], [1]).step,
        manager.append([2], [1], partial=True).step,
        manager.reserve([1], [1]).step,
        manager.append([], []).step,
    ]
    assert steps == [1, 2, 3, 4]
    assert manager.try_append([2], [1]) is None
    assert manager.last_step == 4


@pytest.mark.parametrize("cut_first", [True, False])
def test_o1_the_last_holder_does_not_write_over_what_is_still_read_for_an_ended_one(cut_first: bool) -> None:
    """Two share a block; the longer one ends behind a step that still reads it, the shorter one goes on."""
    manager = KVCacheManager(4, 4)
    manager.admit(1, [1, 2, 3, 4])
    step = manager.append([1], [4]).step
    manager.fork(1, [2])
    cuts = [lambda: manager.truncate([2], [1]), lambda: manager.free([1], after=step)]
    for cut in cuts if cut_first else reversed(cuts):
        cut()
    assert manager.allocator.block(0).fill == 4, "the ended one's tokens are still there"
    plan = manager.append([2], [1])
    assert (plan.copies.tolist(), plan.slots.tolist()) == ([[0, 1]], [5])
    assert manager.allocator.state(0) == BlockState.PENDING
    manager.retire(step)
    assert manager.allocator.state(0) == BlockState.CLEAN
    manager.check()


def test_o1_behind_the_tokens_of_an_ended_one_and_after_its_step_writes_are_in_place() -> None:
    manager = KVCacheManager(4, 4)
    manager.admit(1, [1, 2])
    step = manager.append([1], [2]).step
    manager.fork(1, [2])
    manager.free([1], after=step)
    assert manager.append([2], [1]).copies.size == 0, "nobody has or reads anything behind the second token"
    manager.truncate([2], [1])
    manager.retire(step)
    assert manager.append([2], [1]).copies.size == 0, "the step that read it has finished"
    manager.check()


def test_o1_a_commit_over_what_is_still_read_for_an_ended_one_is_refused() -> None:
    manager = KVCacheManager(4, 4)
    manager.admit(1, [1, 2, 3, 4])
    step = manager.append([1], [4]).step
    manager.fork(1, [2])
    manager.truncate([2], [1])
    manager.free([1], after=step)
    with refused(manager, SequenceStateError):
        manager.commit([2], [3])
    manager.reserve([2], [3])
    manager.commit([2], [3])
    manager.check()
