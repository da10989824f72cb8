"""The facade: a manager bound to a pool, and how to open one."""

from pagedkv.cache.kv_cache import KVCache
from pagedkv.cache.opening import open_cache

__all__ = ["KVCache", "open_cache"]
