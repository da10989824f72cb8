"""What sequences are after a `reorder`, what its plan reports, and which blocks come back in which order."""

from __future__ import annotations

import random

from cases.refused import observable, refused, table
from pagedkv import BlockState, KVCacheManager
from pagedkv.errors import InvalidArgumentError


def _beams(*own: int, reserve: int = 6) -> KVCacheManager:
    """N=16, B=4: sequence 1 of six tokens, forks of it, and then so many tokens more for each."""
    manager = KVCacheManager(16, 4)
    manager.admit(1, range(6), reserve=reserve)
    manager.append([1], [6])
    ids = list(range(1, 1 + len(own)))
    manager.fork(1, ids[1:])
    manager.append(ids, own)
    return manager


def test_the_identity_changes_nothing_but_the_step() -> None:
    manager = _beams(1, 5, 1, reserve=16)
    before = observable(manager)
    plan = manager.reorder([3, 1, 2], [0, 1, 2])
    after = observable(manager)
    assert after.pop("steps") == (3, 0)
    before.pop("steps")
    assert after == before
    assert (plan.step, plan.rows.tolist(), plan.lengths.tolist()) == (3, [2, 0, 1], [7, 7, 11])
    assert plan.slots.size == plan.copies.size == plan.updates.size == 0


def test_one_that_stays_keeps_its_room_and_one_that_moves_gets_none() -> None:
    manager = _beams(1, 1, 1, reserve=16)
    manager.reserve([2], [15])
    kept, gone = table(manager, 1), table(manager, 2)
    plan = manager.reorder([1, 2, 3], [0, 0, 2])
    assert table(manager, 1) == kept
    assert table(manager, 2) == kept[:2]
    assert (manager.capacity_tokens(1), manager.capacity_tokens(2)) == (16, 8)
    assert plan.updates.tolist() == [[1, 1, kept[1]]]
    assert [manager.allocator.state(block) for block in gone[1:]] == [BlockState.CLEAN] * 3
    manager.check()


def test_a_row_that_no_plan_has_named_is_reported_whether_it_moves_or_not() -> None:
    manager = _beams(1, 1)
    manager.fork(2, [5, 6])
    own = table(manager, 1)
    other = table(manager, 2)
    plan = manager.reorder([5, 6, 1], [0, 2, 1])
    assert plan.updates.tolist() == [
        [2, 0, other[0]],
        [2, 1, other[1]],
        [3, 0, own[0]],
        [3, 1, own[1]],
        [0, 1, other[1]],
    ]
    assert manager.append([5, 6, 1, 2], [0] * 4).updates.size == 0


def test_a_longer_table_is_reported_in_ascending_columns() -> None:
    manager = _beams(1, 9, 1)
    wanted = table(manager, 2)
    plan = manager.reorder([3, 1, 2], [2, 1, 2])
    assert plan.updates.tolist() == [[2, column, wanted[column]] for column in (1, 2, 3)]


def test_a_shorter_table_reports_what_changed_and_grows_again_from_there() -> None:
    manager = _beams(9, 1)
    wanted = table(manager, 2)
    plan = manager.reorder([1, 2], [1, 1])
    assert plan.updates.tolist() == [[0, 1, wanted[1]]]
    plan = manager.append([1], [3])
    assert plan.updates[:, 1].tolist() == [1, 2], "the copy of the tail, and the new third column"


def test_sequences_of_unequal_length_change_places() -> None:
    manager = _beams(0, 1, 9)
    manager.commit([1, 2, 3], [4, 7, 15])
    tables = [table(manager, seq_id) for seq_id in (1, 2, 3)]
    plan = manager.reorder([1, 2, 3], [2, 0, 1])
    assert [table(manager, seq_id) for seq_id in (1, 2, 3)] == [tables[2], tables[0], tables[1]]
    assert plan.lengths.tolist() == manager.seq_lens([1, 2, 3]).tolist() == [15, 6, 7]
    assert [manager.committed_length(seq_id) for seq_id in (1, 2, 3)] == [15, 4, 7]
    manager.check()


def test_an_empty_sequence_as_parent_and_as_target() -> None:
    manager = _beams(1, 1)
    manager.admit(7, (), reserve=8)
    own, room = table(manager, 1), table(manager, 7)
    plan = manager.reorder([7, 1], [1, 0])
    assert (table(manager, 7), table(manager, 1)) == (own, [])
    assert (manager.seq_length(7), manager.seq_length(1), manager.capacity_tokens(1)) == (7, 0, 0)
    assert plan.updates.tolist() == [[2, 0, own[0]], [2, 1, own[1]]]
    assert [manager.allocator.state(block) for block in room] == [BlockState.CLEAN] * 2
    manager.check()


def test_known_ids_move_with_the_sequence() -> None:
    """Of two in the middle of their prompts: each goes on with the ids of the other."""
    manager = KVCacheManager(16, 4)
    manager.admit(1, range(9))
    manager.admit(2, range(3))
    manager.append([1, 2], [3, 3])
    manager.append([2], [1], tokens=[50])
    manager.reorder([1, 2], [1, 0])
    manager.append([1], [1], tokens=[51])
    with refused(manager, InvalidArgumentError):
        manager.append([2], [1], tokens=[3])
    manager.append([2], [6])
    manager.commit([2, 1], [9, 5], tokens=[])


def test_sequences_that_have_nothing_in_common() -> None:
    manager = KVCacheManager(16, 4)
    for seq_id, tokens in ((1, 6), (2, 9), (3, 1)):
        manager.admit(seq_id, range(tokens))
        manager.append([seq_id], [tokens])
    tables = [table(manager, seq_id) for seq_id in (1, 2, 3)]
    plan = manager.reorder([1, 2, 3], [1, 1, 0])
    assert [table(manager, seq_id) for seq_id in (1, 2, 3)] == [tables[1], tables[1], tables[0]]
    assert plan.updates.tolist() == [
        *([0, column, block] for column, block in enumerate(tables[1])),
        *([2, column, block] for column, block in enumerate(tables[0])),
    ]
    assert manager.get_stats().allocated_blocks == 5
    assert manager.append([1, 2], [1, 1]).copies[:, 0].tolist() == [tables[1][2]]
    manager.free([2, 1, 3])
    assert manager.get_stats().free_blocks == 16
    manager.check()


def test_blocks_come_back_in_argument_order_and_the_deepest_first() -> None:
    manager = _beams(6, 6, 6)
    own = {seq_id: table(manager, seq_id) for seq_id in (1, 2, 3)}
    manager.reorder([3, 1, 2], [1, 1, 1])
    released = [own[3][2], own[3][1], own[2][2], own[2][1]]
    assert manager.allocator.allocate(4).tolist() == released[::-1]


def test_published_blocks_that_a_reorder_drops_are_cached_in_that_order() -> None:
    manager = _beams(6, 6)
    own = table(manager, 2)[1:]
    manager.allocator.publish(own)
    manager.reorder([1, 2], [0, 0])
    assert [manager.allocator.state(block) for block in own] == [BlockState.CACHED] * 2
    clean = manager.get_stats().clean_blocks
    assert manager.allocator.allocate(clean + 2).tolist()[clean:] == own[::-1], "the deepest is evicted first"


def test_a_pinned_block_outlives_the_reorder_that_drops_it() -> None:
    manager = _beams(1, 1)
    own = table(manager, 2)[1]
    manager.allocator.increment_ref(own)
    manager.reorder([1, 2], [0, 0])
    assert (manager.allocator.get_ref_count(own), manager.allocator.block(own).fill) == (1, 3)
    manager.allocator.free(own)
    assert manager.allocator.state(own) == BlockState.CLEAN
    manager.check()


def test_64_groups_in_one_call() -> None:
    """Each group moves within itself, 512 beams in all; a second call moves whole groups into each other."""
    manager = KVCacheManager(4096, 4)
    random_ = random.Random(7)
    ids: list[int] = []
    for group in range(64):
        root = 100 * group
        manager.admit(root, range(6))
        manager.append([root], [6 + group % 3])
        manager.fork(root, range(root + 1, root + 8))
        ids += range(root, root + 8)
    manager.append(ids, [1 + seq_id % 4 for seq_id in ids])
    for spread in (8, 512):
        parents = [index // spread * spread + random_.randrange(spread) for index in range(512)]
        tables = [table(manager, seq_id) for seq_id in ids]
        lengths = manager.seq_lens(ids).tolist()
        plan = manager.reorder(ids, parents)
        assert [table(manager, seq_id) for seq_id in ids] == [tables[parent] for parent in parents]
        assert plan.lengths.tolist() == [lengths[parent] for parent in parents]
        changed = sum(
            new != old
            for target, parent in enumerate(parents)
            for new, old in zip(tables[parent], [*tables[target], *[None] * 4], strict=False)
        )
        assert len(plan.updates) == changed
        manager.append(ids, [1] * 512)
        manager.check()
    manager.free(random_.sample(ids, 512))
    assert manager.get_stats().free_blocks == 4096
    manager.check()
