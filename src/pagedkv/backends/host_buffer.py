"""Host memory as buffers: aligned, lazily committed allocations, and the caller's memory adopted in place."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pagedkv.errors import BackendError, InvalidArgumentError
from pagedkv.kernels import TableMemory
from pagedkv.streams import Buffer

Bytes = npt.NDArray[np.uint8]

ALIGNMENT = 256
# Kernels move 16 bytes at a time; adopted memory must allow it, on the host as on a device.
ADOPTED_ALIGNMENT = 16


class HostBuffer:
    """A piece of host memory; `array` is its bytes (uint8), until it is freed."""

    def __init__(self, array: Bytes) -> None:
        self._array: Bytes | None = array
        self._address = int(array.ctypes.data)
        self._nbytes = int(array.nbytes)

    @property
    def address(self) -> int:
        return self._address

    @property
    def nbytes(self) -> int:
        return self._nbytes

    @property
    def array(self) -> Bytes:
        """The bytes. Raises BackendError once the buffer is freed: work that outlived its memory."""
        if self._array is None:
            raise BackendError(name="USE_AFTER_FREE", text="this host memory has been freed", call="HostBuffer.array")
        return self._array

    def share(self) -> tuple[tuple[int, int], Bytes]:
        """See `pagedkv.streams.SharedBuffer`."""
        return (1, 0), self.array

    def release(self) -> None:
        """Let go of the memory; views that somebody still holds keep it alive. Raises InvalidArgumentError
        the second time.
        """
        if self._array is None:
            raise InvalidArgumentError("this buffer has been freed already; free each buffer once")
        self._array = None


def allocate(nbytes: int) -> HostBuffer:
    """Zeroed memory at a multiple of 256; the system commits a page only when it is touched. MemoryError if
    refused.
    """
    # np.zeros is calloc: for large sizes every system hands out untouched pages, so a big pool costs nothing
    # until used.
    raw = np.zeros(nbytes + ALIGNMENT - 1, np.uint8)
    start = -int(raw.ctypes.data) % ALIGNMENT
    return HostBuffer(raw[start : start + nbytes])


def adopt(memory: object) -> HostBuffer:
    """The caller's memory in place. Raises InvalidArgumentError unless it is contiguous, writable plain data."""
    array = _in_place(memory)
    if array.dtype.hasobject or not array.flags.c_contiguous or not array.flags.writeable:
        raise InvalidArgumentError(
            f"memory of type {array.dtype}, contiguous={array.flags.c_contiguous}, writable={array.flags.writeable} "
            "cannot be a pool; give writable, contiguous plain data"
        )
    if array.nbytes == 0 or array.ctypes.data % ADOPTED_ALIGNMENT:
        raise InvalidArgumentError(
            f"memory of {array.nbytes} bytes at {array.ctypes.data:#x} cannot be a pool; give memory that starts at a "
            f"multiple of {ADOPTED_ALIGNMENT}"
        )
    return HostBuffer(array.reshape(-1).view(np.uint8))


def own_buffer(buffer: Buffer) -> HostBuffer:
    """`buffer` as a HostBuffer. Raises InvalidArgumentError for another backend's buffer."""
    if not isinstance(buffer, HostBuffer):
        raise InvalidArgumentError(f"{type(buffer).__name__} is no buffer of the host backend; give one it allocated")
    return buffer


def table_cells(table: TableMemory) -> npt.NDArray[np.int32]:
    """A device-resident table as it is now, int32 [rows, width], in place."""
    cells = table.rows * table.width
    return own_buffer(table.buffer).array[: cells * 4].view(np.int32).reshape(table.rows, table.width)


def _in_place(memory: object) -> npt.NDArray[np.generic]:
    # Only these two interfaces share memory for certain: np.asarray of anything else might quietly copy.
    try:
        # A NumPy scalar has the interface too, but hands out a copy.
        if hasattr(memory, "__array_interface__") and not isinstance(memory, np.generic):
            return np.asarray(memory)
        return np.asarray(memoryview(memory))  # type: ignore[arg-type]
    except (TypeError, ValueError, BufferError) as error:
        raise InvalidArgumentError(
            f"memory is {type(memory).__name__}, which shares no bytes ({error}); give a NumPy array, bytearray or mmap"
        ) from None
