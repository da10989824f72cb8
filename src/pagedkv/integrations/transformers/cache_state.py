"""What a PagedCache is and holds: sizes, lengths, memory, its end. What changes it is in paged_cache.py."""

from __future__ import annotations

from collections.abc import Sized
from types import TracebackType
from typing import Any, Self

import torch

from pagedkv.errors import BackendError, InvalidArgumentError
from pagedkv.integrations.transformers.memory import Memory, Size
from pagedkv.integrations.transformers.model import decoder_config, num_layers
from pagedkv.integrations.transformers.step import Step
from pagedkv.manager import KVCacheManager
from pagedkv.pool import DevicePool


class CacheState:
    """The lower half of PagedCache; see there."""

    is_compileable = False
    is_croppable = True
    # Set by `generate`, which keeps a cache that the user made.
    _is_user_defined = True

    def __init__(
        self,
        model: Any,
        *,
        num_blocks: int | None = None,
        pool_bytes: int | str | None = None,
        block_size: int = 16,
        dtype: object = None,
        share_equal_rows: bool = True,
        **layout_options: Any,
    ) -> None:
        self._config = decoder_config(model)
        self._size = Size(num_layers(self._config), block_size, num_blocks, pool_bytes, dtype, layout_options)
        self._share_equal_rows = share_equal_rows
        self._memory: Memory | None = None
        self._step: Step | None = None
        self._closed = False

    def __len__(self) -> int:
        """Layers of the model."""
        return self._size.num_layers

    @property
    def is_sliding(self) -> list[bool]:
        """False for every layer: all are stored in full."""
        return [False] * len(self)

    @property
    def is_linear(self) -> list[bool]:
        """False for every layer."""
        return [False] * len(self)

    @property
    def is_dummy(self) -> list[bool]:
        """False for every layer."""
        return [False] * len(self)

    @property
    def is_initialized(self) -> bool:
        """Whether there are rows."""
        return len(self._rows) > 0

    @property
    def batch_size(self) -> int:
        """Rows, -1 before there are any."""
        return len(self._rows) or -1

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Tokens of every row that this layer holds. Layers follow each other within a forward pass."""
        if self._step is not None and self._step.pending(layer_idx):
            return self._step.start
        return 0 if self._memory is None else self._memory.rows.length

    def get_query_offset(self, layer_idx: int = 0) -> int:
        """The position of the next token."""
        return self.get_seq_length(layer_idx)

    def get_mask_sizes(self, query_length: int | torch.Tensor, layer_idx: int = 0) -> tuple[int, int]:
        """(tokens that the next `query_length` tokens may see, position of the first of them, 0)."""
        # 4.5x hands in the positions of the queries instead of their number.
        count = len(query_length) if isinstance(query_length, torch.Tensor) else query_length
        return self.get_seq_length(layer_idx) + count, 0

    def get_max_length(self, layer_idx: int | None = None) -> int:
        """-1, no maximum: what bounds the cache is the pool."""
        return -1

    def activate_past_recording(self) -> None:
        """Nothing to do: every token is kept."""

    def is_recording_past(self, layer_idx: int) -> bool:
        """False: nothing is kept for `crop` that is not kept anyway."""
        return False

    def get_usable_length(self, new_seq_length: int, layer_idx: int = 0) -> int:
        """Tokens of the past that a step may use: all. Asked for by 4.5x."""
        return self.get_seq_length(layer_idx)

    def get_max_cache_shape(self, layer_idx: int | None = None) -> int:
        """As get_max_length; its name in 4.5x."""
        return -1

    @property
    def manager(self) -> KVCacheManager:
        """The bookkeeping, one sequence a row. Raises BackendError before the first K and V have come."""
        return self._opened("manager").manager

    @property
    def pool(self) -> DevicePool:
        """The bytes. Raises BackendError before the first K and V have come."""
        return self._opened("pool").store.pool

    @property
    def nbytes(self) -> int:
        """Bytes of the blocks in use."""
        return 0 if self._memory is None else self._memory.bytes_of(self.manager.get_stats().allocated_blocks)

    @property
    def peak_nbytes(self) -> int:
        """The most bytes of blocks that were in use at a time. What `update` gathers is not counted (one layer)."""
        return 0 if self._memory is None else self._memory.bytes_of(self.manager.get_stats().peak_allocated_blocks)

    def close(self) -> None:
        """Free the pool. Safe to call twice."""
        self._closed, self._step = True, None
        if self._memory is not None:
            self._memory.rows.cut(0)
            self._memory.store.pool.close()

    def __enter__(self) -> Self:
        self._ensure_open("entering the cache's context")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> str:
        raise InvalidArgumentError(
            "a PagedCache is one pool, and cannot be copied or pickled; batch_repeat_interleave gives more rows of the "
            "same blocks, crop takes tokens back"
        )

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"{len(self._rows)} rows of {self.get_seq_length()} tokens"
        return f"<PagedCache {len(self)} layers, {state}, {self.nbytes} bytes in use>"

    @property
    def _rows(self) -> Sized:
        return () if self._memory is None else self._memory.rows

    def _opened(self, name: str) -> Memory:
        if self._memory is None:
            text = "the pool is made when the first keys and values come; run the model first"
            raise BackendError(name="NO_POOL_YET", text=text, call=name)
        return self._memory

    def _ensure_open(self, call: str) -> None:
        if self._closed:
            raise BackendError(name="POOL_CLOSED", text="this cache is closed; open a new one", call=call)
