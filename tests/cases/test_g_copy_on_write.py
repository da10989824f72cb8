"""G: a shared last block must be copied before it is written. Sharing comes from pins here: they read, never write."""

from __future__ import annotations

import numpy as np

from pagedkv import BlockState, KVCacheManager
from pagedkv.errors import SequenceStateError

from .refused import available, refused, table


def _six_tokens_pinned() -> tuple[KVCacheManager, list[int]]:
    manager = KVCacheManager(4, 4)
    manager.admit(1, [1, 2, 3, 4, 5, 6])
    manager.append([1], [6])
    blocks = table(manager, 1)
    manager.allocator.increment_ref(blocks)
    return manager, blocks


def test_g1_shared_partial_block_is_copied_once() -> None:
    manager, (b0, b1) = _six_tokens_pinned()
    assert available(manager) == 2
    plan = manager.append([1], [1])
    fresh = table(manager, 1)[1]
    assert fresh != b1
    assert plan.copies.tolist() == [[b1, fresh]]
    assert plan.slots.tolist() == [4 * fresh + 2]
    assert plan.updates.tolist() == [[manager.row(1), 1, fresh]]
    counts = [manager.allocator.get_ref_count(block) for block in (b0, b1, fresh)]
    assert counts == [2, 1, 1]
    assert manager.allocator.block(b1).fill == 2
    assert manager.allocator.block(fresh).fill == 3
    assert available(manager) == 1
    assert manager.append([1], [1]).copies.size == 0
    assert manager.get_stats().cow_copies == 1
    manager.allocator.free([b0, b1])
    assert available(manager) == 2


def test_g1_last_holder_writes_in_place() -> None:
    manager, (b0, b1) = _six_tokens_pinned()
    manager.allocator.free([b0, b1])
    plan = manager.append([1], [1])
    assert plan.copies.size == 0
    assert plan.slots.tolist() == [4 * b1 + 2]


def test_g1_full_blocks_are_never_copied() -> None:
    manager = KVCacheManager(4, 4)
    manager.admit(1, list(range(8)))
    manager.append([1], [8])
    manager.allocator.increment_ref(table(manager, 1))
    plan = manager.append([1], [1])
    assert plan.copies.size == 0
    assert available(manager) == 1


def test_g1_rejected_tokens_in_a_shared_block_cost_a_copy_of_what_is_kept() -> None:
    """J1 (b) through a pin: the pin still reads the whole block, the writer keeps one token of it."""
    manager = KVCacheManager(4, 4)
    manager.admit(1, list(range(8)))
    manager.append([1], [8])
    b0, b1 = table(manager, 1)
    manager.allocator.increment_ref(b1)
    manager.truncate([1], [5])
    assert table(manager, 1) == [b0, b1]
    assert manager.allocator.block(b1).fill == 4
    plan = manager.append([1], [1], tokens=[77])
    fresh = table(manager, 1)[1]
    assert plan.copies.tolist() == [[b1, fresh]]
    assert manager.allocator.block(fresh).fill == 2
    assert manager.allocator.block(b1).fill == 4
    assert manager.get_stats().allocated_blocks == 3


def test_g1_every_shared_block_that_is_written_is_copied() -> None:
    """Blocks kept for look-ahead can be shared too, not only the last one that holds tokens."""
    manager = KVCacheManager(8, 2)
    manager.admit(1, list(range(6)))
    manager.append([1], [6])
    blocks = table(manager, 1)
    manager.truncate([1], [1], keep_blocks=True)
    manager.allocator.increment_ref(blocks)
    plan = manager.append([1], [5])
    assert plan.copies[:, 0].tolist() == blocks
    assert plan.copies[:, 1].tolist() == table(manager, 1)
    assert not set(table(manager, 1)) & set(blocks)
    assert plan.updates[:, 1].tolist() == [0, 1, 2]


def test_g1_reserve_copies_what_look_ahead_will_write() -> None:
    manager, (_b0, b1) = _six_tokens_pinned()
    plan = manager.reserve([1], [6])
    assert plan.copies.size == 0, "nothing beyond the length will be written"
    plan = manager.reserve([1], [8])
    assert plan.copies[:, 0].tolist() == [b1]
    assert plan.slots.size == 0
    assert manager.seq_length(1) == 6
    assert manager.allocator.block(table(manager, 1)[1]).fill == 2, "the copy holds what the sequence had there"
    manager.check()
    manager.commit([1], [8])
    assert manager.seq_length(1) == 8
    assert manager.allocator.block(b1).fill == 2
    manager.check()


def test_g1_copies_of_one_plan_read_nothing_that_it_writes() -> None:
    manager = KVCacheManager(12, 4)
    ids = [1, 2, 3]
    for seq_id in ids:
        manager.admit(seq_id, [1, 2])
    manager.append(ids, [2, 2, 2])
    lasts = [table(manager, seq_id)[-1] for seq_id in ids]
    manager.allocator.increment_ref(lasts)
    copies = manager.append(ids, [1, 1, 1]).copies
    assert copies[:, 0].tolist() == lasts, "in batch order"
    assert not np.intersect1d(copies[:, 0], copies[:, 1]).size
    assert len(set(copies[:, 1].tolist())) == 3


def test_s2_pins_do_not_write_so_every_writer_needs_its_copy() -> None:
    """The need is exact: with one free block less it must fail, with exactly enough it must work."""
    manager = KVCacheManager(4, 4)
    ids = [1, 2]
    for seq_id in ids:
        manager.admit(seq_id, [1, 2])
    manager.append(ids, [2, 2])
    lasts = [table(manager, seq_id)[-1] for seq_id in ids]
    manager.allocator.increment_ref([*lasts, *lasts])
    (spare,) = manager.allocator.allocate(1).tolist()
    assert manager.try_append(ids, [1, 1]) is None
    assert manager.append(ids, [1, 1], partial=True).served == 1
    manager.allocator.free(spare)
    assert len(manager.append([2], [1]).copies) == 1
    assert manager.get_stats().cow_copies == 2
    assert available(manager) == 0


def test_g1_look_ahead_is_not_accepted_over_a_shared_block() -> None:
    """The tokens would lie in slots that another holder may have written as well."""
    manager, (_, b1) = _six_tokens_pinned()
    with refused(manager, SequenceStateError):
        manager.commit([1], [7])
    manager.commit([1], [6])
    manager.reserve([1], [7])
    manager.commit([1], [7])
    assert b1 not in table(manager, 1)


def test_g1_a_published_block_that_its_sole_holder_overwrites_is_published_no_more() -> None:
    """Its old tokens stay findable until the write; then only the holder's own count."""
    manager = KVCacheManager(4, 4)
    manager.admit(1, list(range(4)))
    manager.append([1], [4])
    manager.allocator.publish(0)
    manager.truncate([1], [1], keep_blocks=True)
    assert manager.allocator.block(0).fill == 4
    plan = manager.append([1], [1])
    assert plan.copies.size == 0
    assert manager.allocator.block(0).fill == 2
    manager.free([1])
    assert manager.allocator.state(0) == BlockState.CLEAN
