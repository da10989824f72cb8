"""J: draft tokens are written ahead, and some of them are rejected. The cursors must tell them apart."""

from __future__ import annotations

import numpy as np
import pytest

from pagedkv import KVCacheManager
from pagedkv.errors import InvalidArgumentError

from .contents import Contents, refs
from .refused import available, refused, table


def _with_drafts() -> KVCacheManager:
    """S=[1..6] committed, then the drafts 91, 92, 93 on top."""
    manager = KVCacheManager(4, 4)
    manager.admit(1, [1, 2, 3, 4, 5, 6])
    manager.append([1], [6])
    manager.commit([1], [6])
    manager.append([1], [3])
    return manager


def test_j1_rejected_drafts_leave_their_block() -> None:
    manager = _with_drafts()
    assert (manager.seq_length(1), len(table(manager, 1)), manager.committed_length(1)) == (9, 3, 6)
    manager.truncate([1], [7])
    assert (manager.seq_length(1), len(table(manager, 1)), manager.committed_length(1)) == (7, 2, 6)
    assert available(manager) == 2
    manager.commit([1], [7], tokens=[91])
    plan = manager.append([1], [1], tokens=[8])
    assert plan.slots.tolist() == [4 * table(manager, 1)[1] + 3]
    assert manager.seq_length(1) == 8


def test_j1_drafts_whose_blocks_are_kept() -> None:
    """The next step writes drafts again, so the engine keeps the block; the length does not remember them."""
    manager = _with_drafts()
    before = table(manager, 1)
    manager.truncate([1], [7], keep_blocks=True)
    assert table(manager, 1) == before
    assert (manager.seq_length(1), manager.capacity_tokens(1)) == (7, 12)
    assert manager.get_stats().stored_tokens == 7
    plan = manager.append([1], [3])
    assert plan.updates.size == 0, "the device knows these blocks already"
    assert table(manager, 1) == before


def test_j1_truncating_below_the_committed_length_takes_the_commit_back() -> None:
    manager = _with_drafts()
    manager.truncate([1], [2])
    assert (manager.seq_length(1), manager.committed_length(1)) == (2, 2)
    manager.append([1], [2])
    assert manager.committed_length(1) == 2


def test_j1_commit_never_goes_back() -> None:
    manager = _with_drafts()
    manager.commit([1], [8])
    manager.commit([1], [7])
    assert manager.committed_length(1) == 8


def test_j1_look_ahead_slots_are_counted_when_accepted() -> None:
    """reserve, write ahead, accept: commit raises the length, but only up to what was reserved."""
    manager = KVCacheManager(4, 4)
    manager.admit(1, [1, 2, 3])
    manager.append([1], [3])
    manager.reserve([1], [8])
    slots = manager.slot_mapping([1], starts=[3], stops=[8]).tolist()
    b0, b1 = table(manager, 1)
    assert slots == [4 * b0 + 3, *range(4 * b1, 4 * b1 + 4)]
    assert manager.seq_length(1) == 3
    manager.commit([1], [5], tokens=[4, 5])
    assert (manager.seq_length(1), manager.committed_length(1)) == (5, 5)
    with refused(manager, InvalidArgumentError):
        manager.commit([1], [9])
    manager.commit([1], [8])
    assert manager.seq_length(1) == 8


@pytest.mark.parametrize("tokens", [[], [7], [7, 8, 9]])
def test_j1_late_ids_must_fit_exactly(tokens: list[int]) -> None:
    """An id too few or too many would shift the ids of all later tokens."""
    manager = KVCacheManager(4, 4)
    manager.admit(1, [1])
    manager.append([1], [3])
    with refused(manager, InvalidArgumentError):
        manager.commit([1], [3], tokens=tokens)
    manager.commit([1], [3], tokens=[7, 8])


def test_j1_late_ids_of_a_batch_are_concatenated_without_those_known() -> None:
    manager = KVCacheManager(8, 4)
    for seq_id, prompt in ((1, [1, 2]), (2, [1, 2, 3, 4, 5]), (3, [])):
        manager.admit(seq_id, prompt, reserve=5)
    manager.append([1, 2, 3], [4, 4, 1])
    with refused(manager, InvalidArgumentError):
        manager.commit([1, 2, 3], [4, 4, 1], tokens=[0, 0])
    manager.commit([1, 2, 3], [4, 4, 1], tokens=np.array([3, 4, 9], np.int32))
    manager.commit([1, 2, 3], [4, 4, 1], tokens=[])


def test_j1_ids_can_be_given_at_append_only_where_they_follow_on() -> None:
    manager = KVCacheManager(8, 4)
    manager.admit(1, [1, 2, 3])
    with refused(manager, InvalidArgumentError):
        manager.append([1], [1], tokens=[1])  # the prompt's ids are known already
    manager.append([1], [3])
    with refused(manager, InvalidArgumentError):
        manager.append([1], [2], tokens=[4])
    manager.append([1], [1], tokens=[4])
    manager.append([1], [1])
    with refused(manager, InvalidArgumentError):
        manager.append([1], [1], tokens=[6])  # id 5 is still missing
    manager.commit([1], [5], tokens=[5])
    manager.append([1], [1], tokens=[6])


def test_j1_a_truncation_that_rejects_nothing_forgets_nothing() -> None:
    """Engines truncate every sequence of a step to what was accepted, those in chunked prefill too."""
    manager = KVCacheManager(8, 4)
    manager.admit(1, list(range(8)))
    manager.append([1], [3])
    manager.truncate([1], [3], keep_blocks=True)
    manager.append([1], [5])
    manager.commit([1], [8], tokens=[])
    manager.append([1], [1], tokens=[8])


def test_j1_a_truncation_into_the_prompt_forgets_its_ids() -> None:
    """What is appended next is other tokens, so the prompt's ids must not be taken for theirs."""
    manager = KVCacheManager(8, 4)
    manager.admit(1, list(range(8)))
    manager.append([1], [8])
    manager.truncate([1], [5])
    manager.append([1], [3], tokens=[77, 78, 79])
    manager.commit([1], [8], tokens=[])


def test_j1_truncate_cannot_lengthen() -> None:
    manager = _with_drafts()
    for keep_blocks in (False, True):
        with refused(manager, InvalidArgumentError):
            manager.truncate([1], [10], keep_blocks=keep_blocks)
        with refused(manager, InvalidArgumentError):
            manager.truncate([1], [-1], keep_blocks=keep_blocks)


@pytest.mark.parametrize(("cutter", "other"), [(1, 2), (2, 1)])
def test_j1_a_truncation_of_a_shared_block_leaves_it_to_the_other(cutter: int, other: int) -> None:
    """Part (b): the one that goes back keeps one token of the shared block, so its next write copies that."""
    held = Contents(4, 4)
    held.start(1, [1, 2, 3, 4, 5, 6, 7, 8])
    held.cache.fork(1, [2])
    manager = held.manager
    b0, b1 = blocks = table(manager, 1)
    held.cache.truncate([cutter], [5])
    assert (manager.seq_length(cutter), table(manager, cutter)) == (5, blocks)
    assert (refs(manager, b1), manager.allocator.block(b1).fill) == ([2], 4)
    assert held.of(other) == [1, 2, 3, 4, 5, 6, 7, 8]
    plan = held.append([cutter], [77])
    b2 = table(manager, cutter)[1]
    assert plan.copies.tolist() == [[b1, b2]]
    assert (refs(manager, b0, b1, b2), manager.allocator.block(b2).fill) == ([2, 1, 1], 2)
    stats = manager.get_stats()
    assert (stats.cow_copies, stats.allocated_blocks, stats.stored_tokens) == (1, 3, 10)
    assert held.of(cutter) == [1, 2, 3, 4, 5, 77]
    assert held.of(other) == [1, 2, 3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize("keep_blocks", [False, True])
@pytest.mark.parametrize("length", [0, 1, 3, 4, 5])
def test_j1_a_fork_can_go_back_to_any_length(length: int, keep_blocks: bool) -> None:
    """Drafts are tried in a fork, all are rejected with some of the prompt: its parent has nothing to do with it."""
    held = Contents(8, 4)
    held.start(1, [1, 2, 3, 4, 5, 6])
    held.cache.fork(1, [2])
    for token in (91, 92, 93):
        held.append([2], [token])
    held.cache.truncate([2], [length], keep_blocks=keep_blocks)
    held.append([2], [8])
    assert held.of(2) == [*[1, 2, 3, 4, 5, 6][:length], 8]
    assert held.of(1) == [1, 2, 3, 4, 5, 6]
    held.cache.free([1])
    assert held.of(2) == [*[1, 2, 3, 4, 5, 6][:length], 8]
    held.cache.free([2])
    assert available(held.manager) == 8
