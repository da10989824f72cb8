"""G4: a beam step with duplicate parents: every beam becomes what its parent was before the call."""

from __future__ import annotations

import pytest

from pagedkv import BlockState

from .contents import Contents, refs
from .refused import available, table

X, Y, Z = 1, 2, 3
BEAMS = [X, Y, Z]


def _diverged(num_blocks: int = 8, block_size: int = 2) -> Contents:
    """X=[1,2,3], its forks Y and Z, then 10, 20 and 30 in this order."""
    held = Contents(num_blocks, block_size)
    held.start(X, [1, 2, 3])
    held.cache.fork(X, [Y, Z])
    for beam in BEAMS:
        held.append([beam], [10 * beam])
    return held


def test_g4_the_whole_case() -> None:
    held = _diverged()
    manager, cache = held.manager, held.cache
    b0 = table(manager, X)[0]
    x1, y1, z1 = (table(manager, beam)[1] for beam in BEAMS)
    stats = manager.get_stats()
    assert (stats.cow_copies, stats.allocated_blocks) == (2, 4)

    plan = cache.reorder(BEAMS, [1, 1, 0])
    assert [held.of(beam) for beam in BEAMS] == [[1, 2, 3, 20], [1, 2, 3, 20], [1, 2, 3, 10]]
    assert refs(manager, b0, y1, x1, z1) == [3, 2, 1, 0]
    assert (manager.get_stats().allocated_blocks, available(manager)) == (3, 5)
    assert plan.slots.size == plan.copies.size == 0
    rows = [manager.row(beam) for beam in BEAMS]
    assert (plan.rows.tolist(), plan.lengths.tolist()) == (rows, [4, 4, 4])
    assert plan.updates.tolist() == [[rows[0], 1, y1], [rows[2], 1, x1]], "Y stays what it was"

    assert held.append(BEAMS, [11, 12, 13]).copies.size == 0
    assert (manager.get_stats().allocated_blocks, available(manager)) == (6, 2)

    cache.reorder(BEAMS, [0, 0, 2])
    assert manager.get_stats().allocated_blocks == 5
    plan = held.append(BEAMS, [14, 15, 16])
    assert plan.copies[:, 1].tolist() == [table(manager, X)[2]]
    stats = manager.get_stats()
    assert (stats.cow_copies, stats.allocated_blocks) == (3, 6)
    assert [held.of(beam) for beam in BEAMS] == [
        [1, 2, 3, 20, 11, 14],
        [1, 2, 3, 20, 11, 15],
        [1, 2, 3, 10, 13, 16],
    ]
    cache.free(BEAMS)
    assert available(manager) == 8


@pytest.mark.parametrize(("block_size", "common"), [(1, 3), (2, 1), (3, 1), (4, 0), (8, 0)])
@pytest.mark.parametrize("parents", [
    [0, 1, 2], [1, 1, 0], [2, 2, 2], [0, 0, 0], [1, 2, 0], [2, 0, 1], [1, 0, 2], [2, 1, 0], [0, 2, 2], [1, 1, 1],
])  # fmt: skip
def test_g4_any_parents(block_size: int, common: int, parents: list[int]) -> None:
    """Swaps and rings above all: done in place, the second beam would get the first one's new self."""
    held = _diverged(12, block_size)
    before = [held.of(beam) for beam in BEAMS]
    held.cache.reorder(BEAMS, parents)
    assert [held.of(beam) for beam in BEAMS] == [before[parent] for parent in parents]
    assert held.manager.get_stats().allocated_blocks == common + len(set(parents))
    held.append(BEAMS, [41, 42, 43])
    for beam, parent, token in zip(BEAMS, parents, (41, 42, 43), strict=True):
        assert held.of(beam) == [*before[parent], token]
    held.cache.free(BEAMS)
    assert available(held.manager) == 12


@pytest.mark.parametrize("writers", [[X, Y, Z], [Z, Y, X], [Y, X, Z], [Y, Z]])
def test_g4_one_winner_then_writers_in_any_order(writers: list[int]) -> None:
    """All become Y; the tail is shared three times, so two writers copy and a third writes in place."""
    held = _diverged(block_size=4)
    tail = table(held.manager, Y)[0]
    held.cache.reorder(BEAMS, [1, 1, 1])
    held.cache.truncate(BEAMS, [3, 3, 3])
    assert refs(held.manager, tail) == [3]
    plan = held.append(writers, [50 + writer for writer in writers])
    assert plan.copies[:, 0].tolist() == [tail] * 2
    for writer in writers:
        assert held.of(writer) == [1, 2, 3, 50 + writer]
    for beam in set(BEAMS) - set(writers):
        assert held.of(beam) == [1, 2, 3]


def test_g4_two_groups_in_one_call_and_a_beam_that_changes_sides() -> None:
    held = Contents(12, 2)
    for root, tokens in ((1, [1, 2, 3]), (5, [5, 6, 7, 8, 9])):
        held.start(root, tokens)
        held.cache.fork(root, [root + 1])
    ids = [1, 2, 5, 6]
    held.append(ids, [101, 102, 105, 106])
    before = [held.of(seq_id) for seq_id in ids]
    for parents in ([1, 1, 2, 2], [3, 0, 1, 0], [2, 3, 0, 1], [1, 2, 3, 0]):
        held.cache.reorder(ids, parents)
        before = [before[parent] for parent in parents]
        assert [held.of(seq_id) for seq_id in ids] == before
    held.append(ids, [201, 202, 205, 206])
    assert [held.of(seq_id) for seq_id in ids] == [
        [*tokens, 200 + seq_id] for seq_id, tokens in zip(ids, before, strict=True)
    ]
    held.cache.free(ids)
    assert available(held.manager) == 12


def test_g4_a_beam_of_a_group_takes_over_an_older_fork() -> None:
    """What a group has in common shrinks when a member goes back, and what is dropped must shrink with it."""
    held = Contents(8, 2)
    held.start(X, [1, 2, 3, 4])
    held.cache.fork(X, [Y])
    held.cache.truncate([Y], [1])
    held.append([Y], [9])
    held.cache.fork(Y, [Z])
    held.append(BEAMS, [5, 5, 5])
    held.cache.reorder(BEAMS, [2, 0, 0])
    assert [held.of(beam) for beam in BEAMS] == [[1, 9, 5], [1, 2, 3, 4, 5], [1, 2, 3, 4, 5]]
    held.cache.free([Y])
    assert held.of(Z) == [1, 2, 3, 4, 5]
    held.cache.free([Z, X])
    assert available(held.manager) == 8


@pytest.mark.parametrize("named", [False, True])
def test_g4_what_a_reorder_drops_last_waits_if_anybody_named_a_step(named: bool) -> None:
    """Z ends behind the step that reads it; then X, the only other holder of Z's tail, becomes Y."""
    held = _diverged()
    manager = held.manager
    held.cache.reorder(BEAMS, [2, 1, 2])
    tail = table(manager, Z)[1]
    held.cache.free([Z], after=manager.last_step if named else None)
    held.cache.reorder([X, Y], [1, 1])
    assert manager.allocator.state(tail) == (BlockState.PENDING if named else BlockState.CLEAN)
    held.cache.retire(manager.last_step)
    assert manager.allocator.state(tail) == BlockState.CLEAN
    assert available(manager) == 6
