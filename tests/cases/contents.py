"""A cache on the host that holds one int32 a token: which tokens a sequence really has, and not only where."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pagedkv import KVCacheManager, StepPlan, open_cache

from .refused import table

TOKEN_BYTES = 4


class Contents:
    """Plans are applied to real memory, and tokens written to the slots that the plans give."""

    def __init__(self, num_blocks: int, block_size: int) -> None:
        size = num_blocks * block_size * TOKEN_BYTES
        self.cache = open_cache(size, block_size, TOKEN_BYTES, device="host")

    @property
    def manager(self) -> KVCacheManager:
        return self.cache.manager

    def start(self, seq_id: int, tokens: Sequence[int]) -> None:
        """A new sequence, written and committed."""
        self.cache.admit(seq_id, tokens)
        self._write(self.cache.append([seq_id], [len(tokens)]), tokens)
        self.cache.commit([seq_id], [len(tokens)])

    def append(self, ids: Sequence[int], tokens: Sequence[int]) -> StepPlan:
        """One token each, in one batch."""
        plan = self.cache.append(ids, [1] * len(ids))
        self._write(plan, tokens)
        return plan

    def _write(self, plan: StepPlan, tokens: Sequence[int]) -> None:
        for slot, token in zip(plan.slots.tolist(), tokens, strict=True):
            block, offset = divmod(slot, self.manager.block_size)
            self.cache.pool.bytes_of(block).view(np.int32)[offset] = token

    def of(self, seq_id: int) -> list[int]:
        """The tokens that a kernel reads through the device-resident row of the sequence."""
        size, length = self.manager.block_size, self.manager.seq_length(seq_id)
        used = -(-length // size)
        row = self.cache.pool.tables.array[self.manager.row(seq_id), :used].tolist()
        assert row == table(self.manager, seq_id)[:used]
        tokens = [self.cache.pool.bytes_of(block).view(np.int32).tolist() for block in row]
        return [token for block in tokens for token in block][:length]


def refs(manager: KVCacheManager, *blocks: int) -> list[int]:
    return [manager.allocator.get_ref_count(block) for block in blocks]
