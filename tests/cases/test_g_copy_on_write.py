"""G1: a shared last block must be copied before it is written, once, and the last holder writes in place."""

from __future__ import annotations

import numpy as np
import pytest

from pagedkv import BlockState, KVCacheManager
from pagedkv.errors import SequenceStateError

from .contents import Contents, refs
from .refused import available, refused, table

S, C = 1, 2


def _six_tokens_forked() -> tuple[Contents, list[int]]:
    """N=4, B=4, S=[1..6] and its fork C."""
    held = Contents(4, 4)
    held.start(S, [1, 2, 3, 4, 5, 6])
    held.cache.fork(S, [C])
    return held, table(held.manager, S)


@pytest.mark.parametrize(("first", "second"), [(C, S), (S, C)])
def test_g1_the_first_writer_gets_the_copy_and_the_last_writes_in_place(first: int, second: int) -> None:
    held, (b0, b1) = _six_tokens_forked()
    manager = held.manager
    assert (manager.get_stats().allocated_blocks, refs(manager, b0, b1)) == (2, [2, 2])

    plan = held.append([first], [100])
    b2 = table(manager, first)[1]
    assert b2 not in (b0, b1)
    assert plan.copies.tolist() == [[b1, b2]]
    assert plan.slots.tolist() == [4 * b2 + 2]
    assert plan.updates.tolist() == [[manager.row(first), 1, b2]]
    assert refs(manager, b0, b1, b2) == [2, 1, 1]
    assert [manager.allocator.block(block).fill for block in (b1, b2)] == [2, 3]

    plan = held.append([second], [200])
    assert plan.copies.size == plan.updates.size == 0
    assert plan.slots.tolist() == [4 * b1 + 2]
    stats = manager.get_stats()
    assert (stats.cow_copies, stats.allocated_blocks, available(manager)) == (1, 3, 1)
    assert held.of(first) == [1, 2, 3, 4, 5, 6, 100]
    assert held.of(second) == [1, 2, 3, 4, 5, 6, 200]


@pytest.mark.parametrize("block_size", [1, 2, 4, 16])
@pytest.mark.parametrize("writers", [[C], [S], [C, S], [S, C]])
def test_g1_full_blocks_are_never_copied(block_size: int, writers: list[int]) -> None:
    """The second run: two full blocks, so whoever writes takes a new block."""
    prompt = list(range(2 * block_size))
    held = Contents(4, block_size)
    held.start(S, prompt)
    held.cache.fork(S, [C])
    for done, writer in enumerate(writers, start=1):
        plan = held.append([writer], [90 + writer])
        assert plan.copies.size == 0
        assert held.manager.get_stats().allocated_blocks == 2 + done
        assert held.of(writer) == [*prompt, 90 + writer]
    assert held.manager.get_stats().cow_copies == 0
    assert held.of(S)[: len(prompt)] == held.of(C)[: len(prompt)] == prompt


@pytest.mark.parametrize(("block_size", "tokens"), [(2, 1), (2, 3), (3, 5), (4, 5), (4, 7), (16, 17), (16, 31)])
def test_g1_three_holders_of_any_tail(block_size: int, tokens: int) -> None:
    prompt = list(range(tokens))
    held = Contents(6, block_size)
    held.start(S, prompt)
    held.cache.fork(S, [C, 3])
    held.append([3], [103])
    held.append([S, C], [101, 102])
    assert held.manager.get_stats().cow_copies == 2
    for seq_id in (S, C, 3):
        assert held.of(seq_id) == [*prompt, 100 + seq_id]
    assert available(held.manager) == 6 - (tokens // block_size) - 3


@pytest.mark.parametrize(("ended", "left"), [(S, C), (C, S)])
def test_g1_whoever_is_left_alone_writes_in_place(ended: int, left: int) -> None:
    held, (_, b1) = _six_tokens_forked()
    held.cache.free([ended])
    plan = held.append([left], [7])
    assert plan.copies.size == 0
    assert plan.slots.tolist() == [4 * b1 + 2]
    assert held.of(left) == [1, 2, 3, 4, 5, 6, 7]
    assert held.manager.get_stats().cow_copies == 0


def test_g1_a_pin_is_a_holder_too() -> None:
    """A pin reads and never writes, so it keeps the block from being written for as long as it lasts."""
    held = Contents(4, 4)
    held.start(S, [1, 2, 3, 4, 5, 6])
    b1 = table(held.manager, S)[1]
    held.manager.allocator.increment_ref(b1)
    held.cache.fork(S, [C])
    assert len(held.append([S, C], [101, 102]).copies) == 2
    assert held.cache.pool.bytes_of(b1).view(np.int32)[:2].tolist() == [5, 6]
    assert (refs(held.manager, b1), available(held.manager)) == ([1], 0)
    held.manager.allocator.free(b1)
    assert available(held.manager) == 1


def test_g1_every_shared_block_that_is_written_is_copied() -> None:
    """Blocks kept for look-ahead can be shared too, not only the last one that holds tokens."""
    manager = KVCacheManager(8, 2)
    manager.admit(S, list(range(6)))
    manager.append([S], [6])
    manager.fork(S, [C])
    blocks = table(manager, S)
    manager.truncate([S], [1], keep_blocks=True)
    assert table(manager, S) == blocks
    plan = manager.append([S], [5])
    assert plan.copies[:, 0].tolist() == blocks
    assert plan.copies[:, 1].tolist() == table(manager, S)
    assert not set(table(manager, S)) & set(blocks)
    assert plan.updates[:, 1].tolist() == [0, 1, 2]
    assert (table(manager, C), refs(manager, *blocks)) == (blocks, [1, 1, 1])


def test_g1_reserve_copies_what_look_ahead_will_write() -> None:
    held, (_, b1) = _six_tokens_forked()
    manager = held.manager
    plan = held.cache.reserve([S], [6])
    assert plan.copies.size == 0, "nothing beyond the length will be written"
    plan = held.cache.reserve([S], [8])
    fresh = table(manager, S)[1]
    assert plan.copies.tolist() == [[b1, fresh]]
    assert plan.slots.size == 0
    assert manager.seq_length(S) == 6
    assert manager.allocator.block(fresh).fill == 2, "the copy holds what the sequence had there"
    manager.commit([S], [8])
    assert manager.seq_length(S) == 8
    assert manager.allocator.block(b1).fill == 2
    assert held.append([C], [7]).copies.size == 0, "C is alone with the old block now"
    assert held.of(S)[:6] == [1, 2, 3, 4, 5, 6]


def test_g1_copies_of_one_plan_read_nothing_that_it_writes() -> None:
    manager = KVCacheManager(12, 4)
    ids = [1, 2, 3]
    for seq_id in ids:
        manager.admit(seq_id, [1, 2])
    manager.append(ids, [2, 2, 2])
    lasts = [table(manager, seq_id)[-1] for seq_id in ids]
    for seq_id in ids:
        manager.fork(seq_id, [10 + seq_id])
    copies = manager.append(ids, [1, 1, 1]).copies
    assert copies[:, 0].tolist() == lasts, "in batch order"
    assert not np.intersect1d(copies[:, 0], copies[:, 1]).size
    assert len(set(copies[:, 1].tolist())) == 3


@pytest.mark.parametrize("raised", [S, C])
def test_g1_look_ahead_is_not_accepted_over_a_shared_block(raised: int) -> None:
    """The tokens would lie in slots that another holder may have written as well."""
    held, (_, b1) = _six_tokens_forked()
    manager = held.manager
    with refused(manager, SequenceStateError):
        manager.commit([raised], [7])
    manager.commit([raised], [6])
    manager.reserve([raised], [7])
    manager.commit([raised], [7])
    assert b1 not in table(manager, raised)
    manager.check()


def test_g1_a_published_block_that_its_sole_holder_overwrites_is_published_no_more() -> None:
    """Its old tokens stay findable until the write; then only the holder's own count."""
    manager = KVCacheManager(4, 4)
    manager.admit(S, list(range(4)))
    manager.append([S], [4])
    manager.allocator.publish(0)
    manager.truncate([S], [1], keep_blocks=True)
    assert manager.allocator.block(0).fill == 4
    plan = manager.append([S], [1])
    assert plan.copies.size == 0
    assert manager.allocator.block(0).fill == 2
    manager.free([S])
    assert manager.allocator.state(0) == BlockState.CLEAN


def test_g1_a_published_block_that_a_fork_overwrites_stays_published() -> None:
    """The writer gets a copy, which is nobody's but its own; the other holder's block stays findable."""
    manager = KVCacheManager(4, 4)
    manager.admit(S, list(range(4)))
    manager.append([S], [4])
    manager.allocator.publish(0)
    manager.fork(S, [C])
    manager.truncate([C], [1])
    assert manager.append([C], [1]).copies.tolist() == [[0, 1]]
    assert (manager.allocator.block(0).fill, manager.allocator.block(1).fill) == (4, 2)
    manager.free([C, S])
    assert manager.allocator.state(0) == BlockState.CACHED
    assert manager.allocator.state(1) == BlockState.CLEAN
    manager.check()
