"""pagedkv: a framework-free KV-cache memory manager.

GPU memory treated as an operating system treats RAM: one pool, uniform blocks, page tables. See `KVCacheManager`
(bookkeeping), `DevicePool` (the bytes) and `open_cache` (both, bound together).
"""

from importlib import import_module
from typing import TYPE_CHECKING

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
from pagedkv.errors import (
    BackendError,
    InvalidArgumentError,
    NeverFitsError,
    OutOfBlocksError,
    PagedKVError,
    SequenceStateError,
    TraceError,
)
from pagedkv.manager import KVCacheManager

if TYPE_CHECKING:
    from pagedkv.cache import KVCache, open_cache
    from pagedkv.layout import KVLayout
    from pagedkv.pool import DevicePool

# Imported when first named: who only keeps books need not pay for the memory layer.
_LAZY = {
    "DevicePool": "pagedkv.pool",
    "KVCache": "pagedkv.cache",
    "KVLayout": "pagedkv.layout",
    "open_cache": "pagedkv.cache",
}

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


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module 'pagedkv' has no attribute {name!r}")
    value = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
