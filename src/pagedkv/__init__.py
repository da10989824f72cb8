"""pagedkv: a framework-free KV-cache memory manager.

GPU memory treated as an operating system treats RAM: one pool, uniform blocks, page tables. See `KVCacheManager`
(bookkeeping), `DevicePool` (the bytes) and `open_cache` (both, bound together).
"""

from pagedkv._core import (
    Admission,
    BlockAllocator,
    BlockState,
    CacheStats,
    CsrTables,
    PageTable,
    PhysicalBlock,
    StepPlan,
)
from pagedkv.cache import KVCache, open_cache
from pagedkv.errors import (
    BackendError,
    InvalidArgumentError,
    NeverFitsError,
    OutOfBlocksError,
    PagedKVError,
    SequenceStateError,
    TraceError,
)
from pagedkv.layout import KVLayout
from pagedkv.manager import KVCacheManager
from pagedkv.pool import DevicePool

__all__ = [
    "Admission",
    "BackendError",
    "BlockAllocator",
    "BlockState",
    "CacheStats",
    "CsrTables",
    "DevicePool",
    "InvalidArgumentError",
    "KVCache",
    "KVCacheManager",
    "KVLayout",
    "NeverFitsError",
    "OutOfBlocksError",
    "PageTable",
    "PagedKVError",
    "PhysicalBlock",
    "SequenceStateError",
    "StepPlan",
    "TraceError",
    "open_cache",
]
