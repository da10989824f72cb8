"""Backends: where a pool's memory is and how work on it is ordered.

A backend is one file and one short test that runs the conformance suite on it. It hands out buffers, streams
and events, and owns the kernels. Nothing above this layer asks which backend it has. A failure of the device
is a BackendError; every later call on that backend's device may raise it again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from pagedkv.errors import InvalidArgumentError
from pagedkv.kernels import Kernels, Place, StridedPlace
from pagedkv.streams import AnyStream, Buffer, Event, Stream

__all__ = ["Backend", "Buffer", "Event", "MemoryInfo", "Stream", "open_backend"]


@dataclass(frozen=True, slots=True)
class MemoryInfo:
    """Device memory in bytes: what could be allocated now, and all there is."""

    free: int
    total: int


@runtime_checkable
class Backend(Protocol):
    """Memory, streams and kernels of one device."""

    @property
    def name(self) -> str:
        """One word: host, null or cuda."""

    @property
    def device_name(self) -> str:
        """The device in words, for reports."""

    @property
    def alignment(self) -> int:
        """Every allocation's address is a multiple of this; at least 256."""

    @property
    def has_bytes(self) -> bool:
        """False: addresses only; operations on bytes raise InvalidArgumentError."""

    @property
    def kernels(self) -> Kernels:
        """The kernels of this device."""

    def allocate(self, nbytes: int) -> Buffer:
        """One aligned piece of memory of at least 1 byte, zeroed on the host. Raises BackendError when there
        is too little.
        """

    def adopt(self, memory: object) -> Buffer:
        """A buffer over the caller's writable, contiguous memory, without a copy; `free` only lets go of it.

        Takes the buffer protocol or the array interface of the device. Raises InvalidArgumentError for
        anything else.
        """

    def free(self, buffer: Buffer) -> None:
        """End a buffer's life. Raises InvalidArgumentError for a buffer that is not this backend's or is
        freed already.
        """

    def stream(self) -> Stream:
        """A new, empty stream."""

    def as_stream(self, stream: AnyStream) -> Stream:
        """`stream` as this backend's; an engine's own stream is used in place. Raises InvalidArgumentError."""

    def as_array(self, value: object, name: str, dtypes: tuple[str, ...], ndim: int) -> Place:
        """The caller's array in place: compact, of one of `dtypes`. Raises InvalidArgumentError, naming `name`."""

    def as_strided(
        self, value: object, name: str, dtypes: tuple[str, ...], ndim: int, *, writable: bool = False
    ) -> StridedPlace:
        """The caller's tensor in place, with any strides but a last one of 1, of one of `dtypes` (dtypes.DTYPES' names,
        or "int32", "int64"); NumPy's uint16 is taken for bfloat16. writable: it will be written, so no two elements may
        share memory. Raises InvalidArgumentError, naming `name`, also for a tensor of another device.
        """

    def event(self) -> Event:
        """A new event that has not been recorded."""

    def upload(self, buffer: Buffer, offset: int, data: npt.NDArray[np.uint8], stream: Stream) -> None:
        """Put on `stream`: write `data` at byte `offset`. `data` is read before the call returns."""

    def download(self, buffer: Buffer, offset: int, out: npt.NDArray[np.uint8], stream: Stream) -> None:
        """Put on `stream`: read out.nbytes bytes at `offset` into contiguous `out`, valid once the stream has
        passed.
        """

    def host_view(self, buffer: Buffer) -> npt.NDArray[np.uint8]:
        """The bytes themselves, writable, no copy, until the buffer is freed; on no stream: synchronize
        first.

        Raises InvalidArgumentError where the host cannot address them.
        """

    def memory_info(self) -> MemoryInfo | None:
        """Free and total memory, or None where that means nothing or is not known."""


def open_backend(device: str | Backend) -> Backend:
    """The backend for "auto", "host", "null" or "cuda:N". "auto" is the host in this version; an open backend
    is returned as it is.

    Raises InvalidArgumentError for an unknown name and BackendError for a device that is not there.
    """
    if isinstance(device, Backend):
        return device
    # Imported here: `import pagedkv` must not pay for, or fail on, a backend that nobody opens.
    if device in ("auto", "host"):
        from pagedkv.backends.host import HostBackend

        return HostBackend()
    if device == "null":
        from pagedkv.backends.null import NullBackend

        return NullBackend()
    if isinstance(device, str) and re.fullmatch(r"cuda(:[0-9]+)?", device):
        from pagedkv.backends.cuda import open_cuda

        return open_cuda(int(device.partition(":")[2] or 0))
    raise InvalidArgumentError(f"device {device!r} is unknown; give 'auto', 'host', 'null' or 'cuda:N'")
