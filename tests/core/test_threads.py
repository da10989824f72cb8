"""One manager, several Python threads: no lock of the caller's, and nothing lost."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from contextlib import suppress

import pytest

from pagedkv import KVCacheManager
from pagedkv.errors import OutOfBlocksError, SequenceStateError

THREADS = 6
ROUNDS = 400


def _run_all(work: Callable[[int], None]) -> None:
    """Start together, and let the first failure of any thread fail the test."""
    failures: list[BaseException] = []
    barrier = threading.Barrier(THREADS)

    def run(index: int) -> None:
        try:
            barrier.wait()
            work(index)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def _live_a_life(manager: KVCacheManager, seq_id: int, random_: random.Random) -> None:
    """Admit, grow, reject, and free one sequence; its slots must be its own all the time."""
    if manager.try_admit(seq_id, range(random_.randint(0, 9))) is None:
        return
    for _ in range(4):
        plan = manager.try_append([seq_id], [random_.randint(0, 5)])
        if plan is None:
            break
        length = manager.seq_length(seq_id)
        assert plan.lengths.tolist() == [length]
        assert len(set(manager.slot_mapping([seq_id]).tolist())) == length
        manager.commit([seq_id], [length])
        manager.truncate([seq_id], [length - random_.randint(0, min(2, length))], keep_blocks=random_.random() < 0.5)
    manager.free([seq_id], after=random_.choice((None, manager.last_step)))


def test_lives_side_by_side() -> None:
    """Every thread has its own ids; the pool is small, so that they fight for the blocks."""
    manager = KVCacheManager(24, 4)

    def work(index: int) -> None:
        random_ = random.Random(index)
        for round_ in range(ROUNDS):
            _live_a_life(manager, index + THREADS * round_, random_)
            if round_ % 7 == 0:
                manager.retire(manager.last_step)
            if round_ % 50 == 0:
                manager.check()

    _run_all(work)
    manager.retire(manager.last_step)
    manager.check()
    stats = manager.get_stats()
    assert (stats.free_blocks, stats.active_sequences, stats.pending_blocks) == (24, 0, 0)


def test_one_sequence_appended_by_all() -> None:
    """Each call is atomic: the lengths and steps that the threads see are a permutation of 1..n."""
    manager = KVCacheManager(THREADS * ROUNDS, 1)
    manager.admit(7, ())
    seen: list[list[tuple[int, int, int]]] = [[] for _ in range(THREADS)]

    def work(index: int) -> None:
        for _ in range(ROUNDS):
            plan = manager.append([7], [1])
            seen[index].append((plan.step, int(plan.lengths[0]), int(plan.slots[0])))

    _run_all(work)
    steps, lengths, slots = zip(*sorted(entry for part in seen for entry in part), strict=True)
    assert list(steps) == list(lengths) == list(range(1, THREADS * ROUNDS + 1))
    assert list(slots) == manager.slot_mapping([7]).tolist()
    manager.check()


def test_allocator_and_manager_share_one_lock() -> None:
    """A view from each thread; what one holds, no other gets."""
    manager = KVCacheManager(32, 2)
    owners: dict[int, int] = {}
    guard = threading.Lock()

    def work(index: int) -> None:
        allocator = manager.allocator
        for round_ in range(ROUNDS):
            try:
                ids = allocator.allocate(1 + round_ % 5).tolist()
            except OutOfBlocksError:
                continue
            with guard:
                assert not owners.keys() & set(ids)
                owners.update(dict.fromkeys(ids, index))
            manager.try_admit(index, range(3))
            with guard:
                for block in ids:
                    del owners[block]
                allocator.free(ids)
            if index in manager:
                manager.free([index])

    _run_all(work)
    manager.check()
    assert manager.get_stats().free_blocks == 32


def test_one_admission_of_an_id_wins() -> None:
    manager = KVCacheManager(4, 4)
    wins: list[int] = []

    def work(index: int) -> None:
        for seq_id in range(ROUNDS):
            with suppress(SequenceStateError):
                manager.admit(seq_id, ())
                wins.append(seq_id)

    _run_all(work)
    assert sorted(wins) == list(range(ROUNDS))
    manager.check()


@pytest.mark.parametrize("name", ["get_stats", "seq_ids", "check"])
def test_readers_beside_a_writer(name: str) -> None:
    manager = KVCacheManager(64, 4)
    manager.admit(1, ())
    stop = threading.Event()

    def work(index: int) -> None:
        if index == 0:
            for _ in range(ROUNDS):
                manager.append([1], [5])
                manager.truncate([1], [0])
            stop.set()
        while not stop.is_set():
            getattr(manager, name)()

    _run_all(work)
    manager.check()
