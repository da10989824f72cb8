"""Several threads fork, reorder, write and end groups of their own in one manager: nothing is shared across them."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor

from cases.refused import table
from pagedkv import KVCacheManager
from pagedkv.errors import SequenceStateError

THREADS = 6
ROUNDS = 400


def _live_a_beam_search(manager: KVCacheManager, root: int, random_: random.Random) -> None:
    """One group from its prompt to its end; its members share blocks with each other and with nobody else."""
    if manager.try_admit(root, range(random_.randint(1, 9)), reserve=0) is None:
        return
    beams = [root]
    if manager.try_append([root], [random_.randint(1, 9)]) is not None:
        beams = list(range(root, root + random_.randint(2, 5)))
        manager.fork(root, beams[1:])
        for _ in range(4):
            parents = [random_.randrange(len(beams)) for _ in beams]
            lengths = manager.seq_lens(beams).tolist()
            plan = manager.reorder(beams, parents)
            assert plan.lengths.tolist() == [lengths[parent] for parent in parents]
            manager.append(beams, [random_.randint(0, 2) for _ in beams], partial=True)
            held = {block for beam in beams for block in table(manager, beam)}
            assert all(1 <= manager.allocator.get_ref_count(block) <= len(beams) for block in held)
            if random_.random() < 0.3:
                cut = random_.choice(beams)
                manager.truncate([cut], [manager.seq_length(cut) // 2], keep_blocks=random_.random() < 0.5)
                manager.reorder(beams, [beams.index(cut)] * len(beams))
    random_.shuffle(beams)
    half = random_.randint(0, len(beams))
    manager.free(beams[:half], after=random_.choice((None, manager.last_step)))
    manager.free(beams[half:], after=random_.choice((None, manager.last_step)))


def test_groups_side_by_side() -> None:
    """The pool is small, so that they fight for the blocks, and what one ends another takes."""
    manager = KVCacheManager(60, 3)
    barrier = threading.Barrier(THREADS)

    def work(index: int) -> None:
        random_ = random.Random(index)
        barrier.wait()
        for round_ in range(ROUNDS):
            _live_a_beam_search(manager, 10 * (index + THREADS * round_), random_)
            if round_ % 7 == 0:
                manager.retire(manager.last_step)
            if round_ % 20 == 0:
                manager.check()

    with ThreadPoolExecutor(THREADS) as threads:
        for done in [threads.submit(work, index) for index in range(THREADS)]:
            done.result()
    manager.retire(manager.last_step)
    manager.check()
    stats = manager.get_stats()
    assert (stats.free_blocks, stats.active_sequences, stats.saved_blocks) == (60, 0, 0)
    assert stats.cow_copies > 100


def test_one_fork_of_an_id_wins() -> None:
    """All threads fork the same children from one parent: each child is made once, and no reference is lost."""
    manager = KVCacheManager(4, 4)
    manager.admit(-1, range(6))
    manager.append([-1], [6])
    barrier = threading.Barrier(THREADS)

    def work(_index: int) -> int:
        wins = 0
        barrier.wait()
        for child in range(ROUNDS):
            try:
                manager.fork(-1, [child, 1000 + child])
                wins += 1
            except SequenceStateError:
                continue
        return wins

    with ThreadPoolExecutor(THREADS) as threads:
        assert sum(threads.map(work, range(THREADS))) == ROUNDS
    assert manager.allocator.get_ref_count(0) == manager.get_stats().active_sequences == 2 * ROUNDS + 1
    manager.check()
