"""The null backend: addresses without bytes, for planning an 80 GiB pool on a laptop.

Copies and table updates are taken and counted; whatever would read or write bytes is an InvalidArgumentError.
Order is real: its streams and events are the host's.
"""

from __future__ import annotations

from typing import NoReturn

import numpy as np
import numpy.typing as npt

from pagedkv.arguments import IntArray, whole_number
from pagedkv.backends import MemoryInfo
from pagedkv.backends.device_array import DeviceArray
from pagedkv.backends.host_stream import HostDevice, HostEvent, HostStream, own_stream
from pagedkv.errors import BackendError, InvalidArgumentError
from pagedkv.kernels import (
    DecodeBatch,
    Place,
    PoolMemory,
    SeparateLaunches,
    StridedPlace,
    TableBatch,
    TableMemory,
    TokenBatch,
    TokenKV,
)
from pagedkv.streams import AnyStream, Buffer, Stream

_ALIGNMENT = 256
# Canonical user space of 64-bit machines; starting far above 4 GiB makes a 32-bit truncation show in any
# test.
_FIRST_ADDRESS, _LAST_ADDRESS = 2**40, 2**62


class NullBuffer:
    """An address range that nothing stands behind."""

    def __init__(self, address: int, nbytes: int) -> None:
        self.address = address
        self.nbytes = nbytes
        self.freed = False


class NullKernels(SeparateLaunches):
    """Counts what it is given. See `pagedkv.kernels.Kernels`."""

    def __init__(self) -> None:
        self.copied_blocks = 0
        self.scattered_entries = 0

    def copy_blocks(self, memory: PoolMemory, pairs: npt.NDArray[np.int32], stream: Stream) -> None:
        own_stream(stream)
        self.copied_blocks += len(pairs)

    def fill_blocks(self, memory: PoolMemory, block_ids: IntArray, tags: IntArray, stream: Stream) -> None:
        _no_bytes("fill_blocks")

    def verify_blocks(
        self, memory: PoolMemory, block_ids: IntArray, tags: IntArray, counter: Buffer, stream: Stream
    ) -> None:
        _no_bytes("verify_blocks")

    def fill_tokens(self, memory: PoolMemory, tokens: TokenBatch, stream: Stream) -> None:
        _no_bytes("fill_tokens")

    def verify_tokens(self, memory: PoolMemory, tokens: TokenBatch, counter: Buffer, stream: Stream) -> None:
        _no_bytes("verify_tokens")

    def fill_floats(
        self, memory: PoolMemory, block_ids: IntArray, values: npt.NDArray[np.float32], stream: Stream
    ) -> None:
        _no_bytes("fill_floats")

    def verify_floats(
        self,
        memory: PoolMemory,
        block_ids: IntArray,
        values: npt.NDArray[np.float32],
        counter: Buffer,
        stream: Stream,
    ) -> None:
        _no_bytes("verify_floats")

    def scrub_blocks(self, memory: PoolMemory, block_ids: IntArray, stream: Stream) -> None:
        _no_bytes("scrub_blocks")

    def write_kv(self, memory: PoolMemory, tokens: TokenKV, stream: Stream) -> None:
        _no_bytes("write_kv")

    def gather_kv(self, memory: PoolMemory, tokens: TokenKV, stream: Stream) -> None:
        _no_bytes("gather_kv")

    def decode_attention(self, memory: PoolMemory, batch: DecodeBatch, stream: Stream) -> None:
        _no_bytes("decode_attention")

    def gather_table(self, table: TableMemory, batch: TableBatch, out: Place, pad: int, stream: Stream) -> None:
        _no_bytes("gather_table")

    def slots(
        self, table: TableMemory, batch: TableBatch, positions: Place, out: Place, stream: Stream, *, limited: bool
    ) -> None:
        _no_bytes("slots")

    def csr(
        self, table: TableMemory, batch: TableBatch, indptr: Place, indices: Place, last_page_len: Place, stream: Stream
    ) -> None:
        _no_bytes("csr")

    def grow_table(self, old: TableMemory, new: TableMemory, pad: int, stream: Stream) -> None:
        own_stream(stream)

    def scatter_table(self, table: TableMemory, updates: npt.NDArray[np.int32], stream: Stream) -> None:
        own_stream(stream)
        self.scattered_entries += len(updates)


class NullBackend:
    """Addresses, order and counts. See `pagedkv.backends.Backend`; stepped as for the host backend."""

    name = "null"
    device_name = "none (addresses only)"
    alignment = _ALIGNMENT
    has_bytes = False

    def __init__(self, *, stepped: bool = False) -> None:
        self._stepped = stepped
        self._device = HostDevice()
        self._next = _FIRST_ADDRESS
        self.kernels = NullKernels()

    def allocate(self, nbytes: int) -> NullBuffer:
        size = whole_number(nbytes, "nbytes", minimum=1)
        if size > _LAST_ADDRESS - self._next:
            left = _LAST_ADDRESS - self._next
            text = f"{size} bytes were asked for, {left} bytes of addresses are left; ask for a smaller pool"
            raise BackendError(name="OUT_OF_MEMORY", text=text, call="allocate")
        buffer = NullBuffer(self._next, size)
        self._next += -(-size // _ALIGNMENT) * _ALIGNMENT
        return buffer

    def adopt(self, memory: object) -> NullBuffer:
        _no_bytes("adopt")

    def free(self, buffer: Buffer) -> None:
        if not isinstance(buffer, NullBuffer) or buffer.freed:
            raise InvalidArgumentError("this is no buffer of the null backend, or it is freed; free each buffer once")
        buffer.freed = True

    def stream(self) -> HostStream:
        return HostStream(stepped=self._stepped, device=self._device)

    def as_stream(self, stream: AnyStream) -> HostStream:
        return own_stream(stream)

    def as_array(self, value: object, name: str, dtypes: tuple[str, ...], ndim: int) -> DeviceArray:
        _no_bytes(name)

    def as_strided(
        self, value: object, name: str, dtypes: tuple[str, ...], ndim: int, *, writable: bool = False
    ) -> StridedPlace:
        _no_bytes(name)

    def event(self) -> HostEvent:
        return HostEvent(self._device)

    def upload(self, buffer: Buffer, offset: int, data: npt.NDArray[np.uint8], stream: Stream) -> None:
        _no_bytes("upload")

    def download(self, buffer: Buffer, offset: int, out: npt.NDArray[np.uint8], stream: Stream) -> None:
        _no_bytes("download")

    def host_view(self, buffer: Buffer) -> npt.NDArray[np.uint8]:
        _no_bytes("host_view")

    def memory_info(self) -> MemoryInfo | None:
        return None


def _no_bytes(call: str) -> NoReturn:
    raise InvalidArgumentError(f"{call} needs bytes, and the null backend has addresses only; use device='host'")
