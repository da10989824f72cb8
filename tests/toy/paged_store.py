"""The cache in a pool's blocks: written through slots, read back through the device-resident block tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pagedkv import DevicePool, KVCacheManager, OpaqueLayout
from pagedkv.cache import KVCache

from .full_copies import TOKEN_BYTES, Usage
from .language_model import STORED, Vector


class PagedStore:
    """A `Store` on a manager and a host pool. Every call ends with the manager's check of all its invariants."""

    def __init__(self, block_size: int, num_blocks: int = 600, pool_type: type[DevicePool] = DevicePool) -> None:
        layout = OpaqueLayout(TOKEN_BYTES, block_size)
        memory = np.full(layout.pool_bytes(num_blocks), 0xA5, np.uint8)
        pool = pool_type(layout, num_blocks, device="host", memory=memory)
        self.cache = KVCache(KVCacheManager(num_blocks, block_size), pool)
        self.history: list[Usage] = []
        self._vectors = memory.view(np.float64).reshape(-1, STORED)  # block-major: a slot is a line

    @property
    def peak_bytes(self) -> int:
        return self.cache.get_stats().peak_allocated_blocks * self.cache.pool.layout.block_bytes

    def begin(self, seq_id: int) -> None:
        self.cache.register_sequence(seq_id)
        self._record()

    def read(self, seq_id: int) -> Vector:
        length, block_size = self.cache.seq_length(seq_id), self.cache.block_size_tokens
        self.cache.pool.stream.synchronize()
        if not length:
            return np.zeros((0, STORED))  # no plan has named it yet, so it may have no line
        entries = self.cache.pool.tables.array[self.cache.row(seq_id), : -(-length // block_size)]
        slots = entries.astype(np.int64)[:, None] * block_size + np.arange(block_size)
        vectors: Vector = self._vectors[slots.reshape(-1)[:length]]
        return vectors

    def append(self, seq_ids: Sequence[int], rows: Vector) -> None:
        plan = self.cache.append(seq_ids, [1] * len(seq_ids))
        self.cache.pool.stream.synchronize()
        self._vectors[plan.slots] = rows
        self._record()

    def fork(self, parent_id: int, child_ids: Sequence[int]) -> None:
        self.cache.fork(parent_id, child_ids)
        self._record()

    def reorder(self, seq_ids: Sequence[int], parents: Sequence[int]) -> None:
        self.cache.reorder(seq_ids, parents)
        self._record()

    def truncate(self, seq_id: int, length: int) -> None:
        self.cache.truncate([seq_id], [length])
        self._record()

    def free(self, seq_ids: Sequence[int]) -> None:
        self.cache.free(seq_ids)
        self._record()

    def _record(self) -> None:
        self.cache.check()
        stats = self.cache.get_stats()
        assert stats.allocated_blocks == stats.logical_blocks - stats.saved_blocks
        self.history.append(Usage(stats.logical_blocks, stats.allocated_blocks, stats.cow_copies))
