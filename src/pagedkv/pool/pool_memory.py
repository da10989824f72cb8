"""The pool's one piece of memory: allocated or adopted, addressed, usable, closed or lost.

Owns: the buffer of all blocks. State: usable -> closed, or usable -> lost -> closed. Lost is what a failure
inside a backend operation leaves: nobody knows which work has run, so every later call raises, no step
finishes any more and no pending block is ever handed out again; only `close` works.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pagedkv.arguments import INT32_MAX, whole_number
from pagedkv.backends import Backend, open_backend
from pagedkv.errors import BackendError, InvalidArgumentError
from pagedkv.kernels import PoolMemory
from pagedkv.layout import Layout
from pagedkv.streams import AnyStream, Buffer, Stream

T = TypeVar("T")


class PooledMemory:
    """Memory for `num_blocks` + `scratch_blocks` blocks on one device. See `DevicePool`, which this is the
    lower half of.
    """

    def __init__(
        self, layout: Layout, num_blocks: int, *, device: str | Backend, memory: object, scratch_blocks: int
    ) -> None:
        if isinstance(layout, type) or not isinstance(layout, Layout):  # a class has the names of its objects, too
            raise InvalidArgumentError(f"layout is {str(layout)[:80]}; give a KVLayout or an OpaqueLayout")
        self.layout = layout
        self.num_blocks = whole_number(num_blocks, "num_blocks", minimum=1, maximum=INT32_MAX)
        self.scratch_blocks = whole_number(scratch_blocks, "scratch_blocks", maximum=INT32_MAX - self.num_blocks)
        self.nbytes = layout.pool_bytes(self.num_blocks + self.scratch_blocks)
        self.backend = open_backend(device)
        self._stream = self.backend.stream()
        self._buffer = self._obtain(memory)
        self._base = self._buffer.address
        self._memory = PoolMemory(self._buffer, layout, self.total_blocks, layout.extents(self.total_blocks))
        self._failure: BackendError | None = None
        self._closed = False

    @property
    def base(self) -> int:
        """Device address of block 0. Valid until `close`; raises BackendError afterwards."""
        self._ensure_open("base")
        return self._base

    @property
    def stream(self) -> Stream:
        """The compute stream: what `apply` used last, at first one of the pool's own."""
        return self._stream

    @property
    def total_blocks(self) -> int:
        """Blocks with memory behind them = num_blocks + scratch_blocks; ids run from 0, the scratch blocks
        come last.
        """
        return self.num_blocks + self.scratch_blocks

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    @property
    def failure(self) -> BackendError | None:
        """The failure that lost this pool; None while it is sound."""
        return self._failure

    def block_ptr(self, block_id: int) -> int:
        """Device address of a block. Raises InvalidArgumentError for an id outside, and for a layer-major pool, where a
        block has no single address; valid until `close`; touches no bytes.
        """
        if not self._memory.extents.contiguous:
            raise InvalidArgumentError("a block of a layer-major pool lies in many places; use token_ptr or layer")
        return self.base + self._block(block_id) * self.layout.block_bytes

    def token_ptr(self, block_id: int, offset: int, layer: int = 0, part: str = "k") -> int:
        """Device address of token `offset` of a block, head 0 of a part of a layer. Errors as `block_ptr`."""
        block = self._block(block_id)
        return self.base + self.layout.token_offset(block, offset, self.total_blocks, layer, part)

    def ensure_usable(self, call: str) -> None:
        """Raise BackendError if the pool is closed or lost; `call` names what was about to be done."""
        self._ensure_open(call)
        if self._failure is not None:
            text = f"this pool is lost since {self._failure}; close it and open a new one"
            raise BackendError(name="POOL_LOST", text=text, call=call)

    def _ensure_open(self, call: str) -> None:
        if self._closed:
            raise BackendError(name="POOL_CLOSED", text="this pool is closed; open a new one", call=call)

    def _queue(self, stream: AnyStream | None) -> Stream:
        """The stream that a call works on. Handle 0 is a stream too, CUDA's default one."""
        return self._stream if stream is None else self.backend.as_stream(stream)

    def _guard(self, call: str, operation: Callable[[], T]) -> T:
        """Run a backend operation; a BackendError out of it loses the pool."""
        self.ensure_usable(call)
        try:
            return operation()
        except BackendError as error:
            self._failure = error
            raise

    def _block(self, block_id: int) -> int:
        return whole_number(block_id, "block id", maximum=self.total_blocks - 1)

    def _obtain(self, memory: object) -> Buffer:
        if memory is None:
            return self.backend.allocate(self.nbytes)
        buffer = self.backend.adopt(memory)
        if buffer.nbytes < self.nbytes:
            raise InvalidArgumentError(
                f"{self.total_blocks} blocks need {self.nbytes} bytes, memory= has {buffer.nbytes}; "
                "give more or ask for fewer blocks"
            )
        return buffer
