"""Statistics of a cache: an immutable snapshot, O(1) at any size."""

from __future__ import annotations

from pagedkv._core import CacheStats

__all__ = ["CacheStats"]
