"""S: found in review of the design: what a batch needs is exact, and a repeated id in one batch is refused."""

from __future__ import annotations

import pytest

from pagedkv import KVCacheManager
from pagedkv.errors import InvalidArgumentError, OutOfBlocksError

from .contents import Contents, refs
from .refused import available, refused, table

S, C = 1, 2


@pytest.mark.parametrize("writers", [[S, C], [C, S]])
@pytest.mark.parametrize(("block_size", "tokens"), [(4, 6), (4, 5), (4, 7), (2, 3), (3, 4), (16, 30)])
def test_s2_two_writers_of_a_shared_tail_need_one_block(writers: list[int], block_size: int, tokens: int) -> None:
    prompt = list(range(tokens))
    held = Contents(3, block_size)
    held.start(S, prompt)
    held.cache.fork(S, [C])
    assert available(held.manager) == 1
    plan = held.append(writers, [91, 92])
    assert len(plan.copies) == held.manager.get_stats().cow_copies == 1
    assert held.manager.get_stats().allocated_blocks == 3
    assert table(held.manager, S)[-1] != table(held.manager, C)[-1]
    assert table(held.manager, S)[0] == table(held.manager, C)[0]
    for writer, token in zip(writers, (91, 92), strict=True):
        assert held.of(writer) == [*prompt, token]


@pytest.mark.parametrize("holders", [2, 3, 5])
def test_s2_k_of_r_holders_that_write_need_the_lesser_of_k_and_r_less_one(holders: int) -> None:
    """With one free block less the batch must fail, with exactly that many it must work."""
    for writers in range(1, holders + 1):
        need = min(writers, holders - 1)
        for spare in (need - 1, need):
            manager = KVCacheManager(2 + spare, 4)
            manager.admit(S, range(6))
            manager.append([S], [6])
            manager.fork(S, range(10, 9 + holders))
            tail, batch = table(manager, S)[1], manager.seq_ids().tolist()[:writers]
            if spare < need:
                with refused(manager, OutOfBlocksError) as caught:
                    manager.append(batch, [1] * writers)
                assert (caught.value.needed, caught.value.available) == (need, spare)
                continue
            assert len(manager.append(batch, [1] * writers).copies) == need
            assert refs(manager, tail) == [holders - need]
            assert available(manager) == 0


def test_s2_a_partial_batch_stops_where_the_copies_stop_and_the_last_holder_needs_none() -> None:
    manager = KVCacheManager(3, 4)
    manager.admit(S, range(6))
    manager.append([S], [6])
    manager.fork(S, [C, 3])
    plan = manager.append([S, C, 3], [1, 1, 1], partial=True)
    assert (plan.served, len(plan.copies), available(manager)) == (1, 1, 0)
    manager.free([S])
    plan = manager.append([C, 3], [1, 1], partial=True)
    assert (plan.served, len(plan.copies)) == (2, 1)


def test_s2_two_groups_and_one_that_writes_nothing_in_a_batch() -> None:
    manager = KVCacheManager(6, 4)
    for root in (1, 5):
        manager.admit(root, range(2))
        manager.append([root], [2])
        manager.fork(root, [root + 1, root + 2])
    tails = [table(manager, root)[0] for root in (1, 5)]
    plan = manager.append([1, 5, 2, 6, 3, 7], [1, 1, 0, 1, 1, 1])
    assert plan.copies[:, 0].tolist() == [tails[0], tails[1], tails[1], tails[0]]
    assert (refs(manager, *tails), available(manager)) == ([1, 1], 0)
    assert (table(manager, 2), table(manager, 7)) == ([tails[0]], [tails[1]])


def test_s2_pins_do_not_write_so_every_writer_needs_its_copy() -> None:
    manager = KVCacheManager(4, 4)
    manager.admit(S, [1, 2])
    manager.append([S], [2])
    manager.fork(S, [C])
    (tail,) = table(manager, S)
    manager.allocator.increment_ref(tail)
    spare = manager.allocator.allocate(2).tolist()
    assert manager.try_append([S, C], [1, 1]) is None
    assert manager.append([S, C], [1, 1], partial=True).served == 1
    manager.allocator.free(spare)
    assert len(manager.append([C], [1]).copies) == 1
    assert (manager.get_stats().cow_copies, refs(manager, tail), available(manager)) == (2, [1], 1)


@pytest.mark.parametrize("ids", [[7, 7], [7, 8, 7], [8, 7, 7]])
def test_s3_a_repeated_id_is_refused_by_every_batch_call(ids: list[int]) -> None:
    manager = KVCacheManager(8, 4)
    for seq_id in (7, 8):
        manager.admit(seq_id, [1, 2, 3])
    manager.append([7, 8], [1, 1])
    ones = [1] * len(ids)
    for call in (
        lambda: manager.append(ids, ones),
        lambda: manager.append(ids, ones, partial=True),
        lambda: manager.try_append(ids, ones),
        lambda: manager.reserve(ids, ones),
        lambda: manager.try_reserve(ids, ones),
        lambda: manager.reorder(ids, ones),
        lambda: manager.commit(ids, ones),
        lambda: manager.truncate(ids, ones),
        lambda: manager.free(ids),
        lambda: manager.block_table(ids),
        lambda: manager.slot_mapping(ids),
        lambda: manager.csr(ids),
        lambda: manager.seq_lens(ids),
    ):
        with refused(manager, InvalidArgumentError) as caught:
            call()
        assert "7" in str(caught.value)


def test_s3_the_mark_of_a_refused_batch_does_not_stick() -> None:
    """The ids of a batch that failed are not "already named" in the next one."""
    manager = KVCacheManager(8, 4)
    manager.admit(7, [1])
    for _ in range(3):
        with refused(manager, InvalidArgumentError):
            manager.append([7, 7], [1, 1])
        manager.append([7], [1])
    assert manager.seq_length(7) == 3


def test_s3_ids_that_differ_only_in_their_high_bits_are_not_repeated() -> None:
    manager = KVCacheManager(8, 4)
    ids = [7, 7 + 2**32, 7 - 2**63, 2**63 - 1, -1]
    for seq_id in ids:
        manager.admit(seq_id, [1])
    assert manager.append(ids, [1] * 5).rows.tolist() == [0, 1, 2, 3, 4]
    assert sorted(manager.seq_ids().tolist()) == sorted(ids)
