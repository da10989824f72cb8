"""open_cache: from bytes and sizes to a manager and a pool that fit each other."""

from __future__ import annotations

from typing import Any

from pagedkv.arguments import INT32_MAX, whole_number
from pagedkv.backends import Backend
from pagedkv.errors import InvalidArgumentError
from pagedkv.kv_cache import KVCache
from pagedkv.layout import Layout, OpaqueLayout, parse_bytes
from pagedkv.manager import KVCacheManager
from pagedkv.pool import DevicePool

__all__ = ["KVCache", "open_cache"]


def open_cache(
    pool_bytes: int | str,
    block_size: int,
    token_bytes_or_layout: int | Layout,
    *,
    device: str | Backend = "auto",
    memory: object = None,
    **manager_options: Any,
) -> KVCache:
    """A cache in a pool of at most `pool_bytes` bytes (or "256MiB"), scratch blocks included.

    token_bytes_or_layout: bytes of one token over all layers, or a layout whose block size is `block_size`.
    device, memory: as DevicePool. manager_options: keyword options of KVCacheManager. Raises
    InvalidArgumentError for bad sizes and a pool smaller than a block, BackendError when the memory cannot be
    had.
    """
    layout = _layout(block_size, token_bytes_or_layout)
    scratch = whole_number(manager_options.get("scratch_blocks", 0), "scratch_blocks")
    size = parse_bytes(pool_bytes)
    num_blocks = layout.blocks_in(size) - scratch
    if num_blocks < 1:
        raise InvalidArgumentError(
            f"{size} bytes hold {num_blocks + scratch} blocks of {layout.block_bytes}, {scratch} of them scratch; "
            "give room for at least one usable block"
        )
    whole_number(num_blocks + scratch, f"the number of blocks in {size} bytes", maximum=INT32_MAX)
    # The pool first: where its memory cannot be had, a manager for that many blocks would have been built in vain.
    pool = DevicePool(layout, num_blocks, device=device, memory=memory, scratch_blocks=scratch)
    try:
        return KVCache(KVCacheManager(num_blocks, layout.block_size, **manager_options), pool)
    except BaseException:
        pool.close()
        raise


def _layout(block_size: int, token_bytes_or_layout: int | Layout) -> Layout:
    if not isinstance(token_bytes_or_layout, Layout):
        return OpaqueLayout(token_bytes_or_layout, block_size)
    if token_bytes_or_layout.block_size != block_size:
        raise InvalidArgumentError(
            f"block_size is {block_size}, the layout has {token_bytes_or_layout.block_size}; give the same in both"
        )
    return token_bytes_or_layout
