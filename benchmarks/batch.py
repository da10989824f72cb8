"""A batch of running sequences that decodes, is cut back and decodes again."""

import numpy as np

from benchmarks.clock import Sample, Stopwatch
from pagedkv import KVCacheManager

BLOCK_SIZE = 16
PERIODS = 8  # blocks that every sequence takes in one sample
STEPS = PERIODS * BLOCK_SIZE


def blocks_needed(running: int, prompt_tokens: int) -> int:
    """Blocks that a batch holds at its longest."""
    return running * (-(-prompt_tokens // BLOCK_SIZE) + PERIODS + 1)


class DecodeBatch:
    """`running` sequences whose lengths are staggered, so that 1/16 of them take a block in each step.

    A sample is the mean of 8 periods of 16 steps, every sequence taking a block in each; then the batch is
    cut back to where it started. One step alone would be too short for the clocks.
    """

    def __init__(self, manager: KVCacheManager, running: int, prompt_tokens: int) -> None:
        self.manager = manager
        self.ids = np.arange(running, dtype=np.int64)
        self.counts = np.ones(running, dtype=np.int32)
        self.start = (prompt_tokens + self.ids % BLOCK_SIZE).astype(np.int32)
        for seq_id, length in zip(self.ids.tolist(), self.start.tolist(), strict=True):
            manager.admit(seq_id, (), reserve=length)
        manager.commit(self.ids, self.start)
        self.read()  # emits the prompts' table entries, which no decode step emits again

    def read(self) -> Sample:
        """Slots and table updates become arrays in each step."""
        append, ids, counts = self.manager.append, self.ids, self.counts
        watch = Stopwatch()
        for _ in range(STEPS):
            plan = append(ids, counts)
            plan.slots  # noqa: B018  the array is made on first access: that is what is measured
            plan.updates  # noqa: B018
        sample = watch.stop(STEPS)
        self.cut_back()
        return sample

    def core(self) -> Sample:
        """Nobody reads the arrays."""
        append, ids, counts = self.manager.append, self.ids, self.counts
        watch = Stopwatch()
        for _ in range(STEPS):
            append(ids, counts)
        sample = watch.stop(STEPS)
        self.cut_back()
        return sample

    def cut_back(self) -> None:
        self.manager.truncate(self.ids, self.start)


def clean_manager(num_blocks: int, *, shuffled: bool = False) -> KVCacheManager:
    """A pool of clean blocks, in order or in random memory order, as after hours of serving."""
    manager = KVCacheManager(num_blocks, BLOCK_SIZE)
    if shuffled:
        manager.allocator.free(shuffled_blocks(manager))
    return manager


def cached_manager(num_blocks: int) -> KVCacheManager:
    """A pool whose free blocks are all cached, in random memory order: every block taken evicts one."""
    manager = KVCacheManager(num_blocks, BLOCK_SIZE)
    ids = shuffled_blocks(manager)
    manager.allocator.publish(ids)
    manager.allocator.free(ids)
    return manager


def shuffled_blocks(manager: KVCacheManager) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    """All blocks of an idle pool, taken, in an order of seed 0."""
    ids = manager.allocator.allocate(manager.num_blocks)
    np.random.default_rng(0).shuffle(ids)
    return ids


class EvictingBatch(DecodeBatch):
    """A decode batch that publishes its tail before each cut, so that no free block is ever clean."""

    def cut_back(self) -> None:
        tails = [
            self.manager.get_page_table(seq_id).entries[-(-length // BLOCK_SIZE) :]
            for seq_id, length in zip(self.ids.tolist(), self.start.tolist(), strict=True)
        ]
        self.manager.allocator.publish(np.concatenate(tails))
        super().cut_back()
