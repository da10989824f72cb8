"""pagedkv: a framework-free KV-cache memory manager."""

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
