"""pagedkv: a framework-free KV-cache memory manager.

GPU memory treated as an operating system treats RAM: one pool, uniform blocks, page tables. See `KVCacheManager`
(bookkeeping), `DevicePool` (the bytes) and `open_cache` (both, bound together).
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pagedkv._core import (
        Admission,
        BlockAllocator,
        BlockState,
        CacheEvents,
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
    from pagedkv.kv_layout import KVLayout
    from pagedkv.layout import OpaqueLayout
    from pagedkv.manager import KVCacheManager
    from pagedkv.pool import DevicePool

# Where each name lives, imported when it is first named: who only keeps books need not pay for the memory layer, and
# the command line can listen for Ctrl-C before anything heavy is loaded.
_HOMES = {
    "pagedkv._core": (
        "Admission",
        "BlockAllocator",
        "BlockState",
        "CacheEvents",
        "CacheStats",
        "CsrTables",
        "PageTable",
        "PhysicalBlock",
        "StepPlan",
    ),
    "pagedkv.cache": ("KVCache", "open_cache"),
    "pagedkv.errors": (
        "BackendError",
        "InvalidArgumentError",
        "NeverFitsError",
        "OutOfBlocksError",
        "PagedKVError",
        "SequenceStateError",
        "TraceError",
    ),
    "pagedkv.kv_layout": ("KVLayout",),
    "pagedkv.layout": ("OpaqueLayout",),
    "pagedkv.manager": ("KVCacheManager",),
    "pagedkv.pool": ("DevicePool",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Admission",
    "BackendError",
    "BlockAllocator",
    "BlockState",
    "CacheEvents",
    "CacheStats",
    "CsrTables",
    "DevicePool",
    "InvalidArgumentError",
    "KVCache",
    "KVCacheManager",
    "KVLayout",
    "NeverFitsError",
    "OpaqueLayout",
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
    if name not in _HOME_OF:
        raise AttributeError(f"module 'pagedkv' has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
