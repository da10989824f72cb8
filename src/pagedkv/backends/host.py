"""The host backend: the same protocol as a GPU's, over NumPy memory. Not a mock: bytes, order and failures
are real.
"""

from __future__ import annotations

import platform

import numpy as np
import numpy.typing as npt

from pagedkv.arguments import whole_number
from pagedkv.backends import MemoryInfo, host_buffer
from pagedkv.backends.device_array import DeviceArray, host_array
from pagedkv.backends.host_buffer import ALIGNMENT, HostBuffer, own_buffer
from pagedkv.backends.host_kernels import HostKernels
from pagedkv.backends.host_memory import memory_info
from pagedkv.backends.host_stream import HostDevice, HostEvent, HostStream, own_stream
from pagedkv.backends.strided import Wanted, host_strided
from pagedkv.errors import BackendError
from pagedkv.kernels import Kernels, StridedPlace
from pagedkv.streams import AnyStream, Buffer, Stream

__all__ = ["HostBackend", "HostBuffer", "HostEvent", "HostStream"]


class HostBackend:
    """Main memory and queues of closures. See `pagedkv.backends.Backend`.

    stepped=True: its streams run only when stepped or synchronized, so a test chooses the interleaving.
    """

    name = "host"
    alignment = ALIGNMENT
    has_bytes = True

    def __init__(self, *, stepped: bool = False) -> None:
        self._stepped = stepped
        self._device = HostDevice()
        self._kernels = HostKernels()

    @property
    def device_name(self) -> str:
        return platform.machine() or "host"

    @property
    def kernels(self) -> Kernels:
        return self._kernels

    def allocate(self, nbytes: int) -> HostBuffer:
        size = whole_number(nbytes, "nbytes", minimum=1)
        memory = memory_info()
        # Systems that overcommit would grant this and kill the process when it is touched.
        if memory is not None and size > memory.total:
            raise _out_of_memory(size, memory)
        try:
            return host_buffer.allocate(size)
        except (MemoryError, ValueError):  # ValueError: more than NumPy can address
            raise _out_of_memory(size, memory) from None

    def adopt(self, memory: object) -> HostBuffer:
        return host_buffer.adopt(memory)

    def free(self, buffer: Buffer) -> None:
        own_buffer(buffer).release()

    def stream(self) -> HostStream:
        return HostStream(stepped=self._stepped, device=self._device)

    def as_stream(self, stream: AnyStream) -> HostStream:
        return own_stream(stream)

    def as_array(self, value: object, name: str, dtypes: tuple[str, ...], ndim: int) -> DeviceArray:
        return host_array(value, name, dtypes, ndim)

    def as_strided(
        self, value: object, name: str, dtypes: tuple[str, ...], ndim: int, *, writable: bool = False
    ) -> StridedPlace:
        return host_strided(value, Wanted(name, dtypes, ndim, writable))

    def event(self) -> HostEvent:
        return HostEvent(self._device)

    def upload(self, buffer: Buffer, offset: int, data: npt.NDArray[np.uint8], stream: Stream) -> None:
        target, copied = own_buffer(buffer), data.copy()

        def write() -> None:
            target.array[offset : offset + copied.size] = copied

        own_stream(stream).enqueue(write)

    def download(self, buffer: Buffer, offset: int, out: npt.NDArray[np.uint8], stream: Stream) -> None:
        source = own_buffer(buffer)

        def read() -> None:
            out[:] = source.array[offset : offset + out.size]

        own_stream(stream).enqueue(read)

    def host_view(self, buffer: Buffer) -> npt.NDArray[np.uint8]:
        return own_buffer(buffer).array

    def memory_info(self) -> MemoryInfo | None:
        return memory_info()


def _out_of_memory(nbytes: int, memory: MemoryInfo | None) -> BackendError:
    known = f"{memory.free} of {memory.total} bytes are free" if memory else "how much is free is not known"
    return BackendError(
        name="OUT_OF_MEMORY",
        text=f"{nbytes} bytes were asked for, {known}; ask for a smaller pool, or plan it with device='null'",
        call="allocate",
    )
