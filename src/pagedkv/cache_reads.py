"""CacheReads: what a cache can be asked. The manager's read-only names; the bytes are not touched."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pagedkv._core import BlockAllocator, CacheStats, CsrTables, PageTable
from pagedkv.manager import KVCacheManager


class CacheReads:
    """Read-only names of a manager, for a class that is bound to one. They work on a closed cache too.

    Errors of a method are those of the manager's method of that name.
    """

    manager: KVCacheManager

    @property
    def allocator(self) -> BlockAllocator:
        """The manager's block allocator, a live view with this pool's addresses."""
        return self.manager.allocator

    @property
    def block_size_tokens(self) -> int:
        """Tokens a block."""
        return self.manager.block_size

    def block_table(self, seq_ids: npt.ArrayLike, **options: Any) -> npt.NDArray[np.int32]:
        """As KVCacheManager.block_table; modifies nothing but `out`."""
        return self.manager.block_table(seq_ids, **options)

    def slot_mapping(self, seq_ids: npt.ArrayLike, **options: Any) -> npt.NDArray[np.int64]:
        """As KVCacheManager.slot_mapping; modifies nothing but `out`."""
        return self.manager.slot_mapping(seq_ids, **options)

    def csr(self, seq_ids: npt.ArrayLike, **options: Any) -> CsrTables:
        """As KVCacheManager.csr; modifies nothing but `out`."""
        return self.manager.csr(seq_ids, **options)

    def seq_lens(self, seq_ids: npt.ArrayLike, **options: Any) -> npt.NDArray[np.int32]:
        """As KVCacheManager.seq_lens; modifies nothing but `out`."""
        return self.manager.seq_lens(seq_ids, **options)

    def seq_length(self, seq_id: int) -> int:
        """Tokens stored by a sequence."""
        return self.manager.seq_length(seq_id)

    def committed_length(self, seq_id: int) -> int:
        """Tokens whose writes are enqueued."""
        return self.manager.committed_length(seq_id)

    def capacity_tokens(self, seq_id: int) -> int:
        """Tokens that fit the blocks of a sequence."""
        return self.manager.capacity_tokens(seq_id)

    def row(self, seq_id: int) -> int:
        """A sequence's line in `pool.tables`."""
        return self.manager.row(seq_id)

    def seq_ids(self) -> npt.NDArray[np.int64]:
        """Ids of all live sequences in row order, int64, a fresh array."""
        return self.manager.seq_ids()

    def __contains__(self, seq_id: int) -> bool:
        return seq_id in self.manager

    def get_page_table(self, seq_id: int) -> PageTable:
        """A copy of a sequence's page table as it is now."""
        return self.manager.get_page_table(seq_id)

    def get_stats(self) -> CacheStats:
        """The statistics as they are now; O(1)."""
        return self.manager.get_stats()

    def lookup(self, tokens: npt.ArrayLike, **options: Any) -> int:
        """As KVCacheManager.lookup: tokens that admit would take from the cache now; modifies nothing."""
        return self.manager.lookup(tokens, **options)

    def check(self) -> None:
        """Recount everything; raises PagedKVError naming the first broken invariant."""
        self.manager.check()
