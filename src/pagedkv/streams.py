"""What device work acts on and is ordered by: buffers, streams and events, the same for every backend.

A stream runs what is put on it in that order; two streams have no order between them but the one that an
event makes: `a.record(event); b.wait(event)` keeps all that is put on b from then on behind all that was put
on a before. One thread at a time uses a stream.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias, runtime_checkable


class Buffer(Protocol):
    """A piece of device memory, or an adopted piece of the caller's. Valid until its backend frees it."""

    @property
    def address(self) -> int:
        """Device address of the first byte."""

    @property
    def nbytes(self) -> int:
        """Size in bytes."""


@runtime_checkable
class SharedBuffer(Buffer, Protocol):
    """A buffer whose bytes can be seen in place by others."""

    def share(self) -> tuple[tuple[int, int], object]:
        """(DLPack's device type and id, an object that keeps the memory alive after the buffer is freed)."""


class Event(Protocol):
    """A mark in a stream: it has happened once all the work put on that stream before it is done."""

    @property
    def done(self) -> bool:
        """Whether the latest record has happened. False for an event that was never recorded. Does not wait.

        Raises BackendError after a failure of the device.
        """

    def synchronize(self) -> None:
        """Wait on the host until the latest record has happened. Raises BackendError when it never will."""


@runtime_checkable
class Stream(Protocol):
    """A queue of device work."""

    def wait(self, event: Event) -> None:
        """Hold back what is put on this stream from now on until `event`'s latest record has happened."""

    def record(self, event: Event) -> None:
        """Mark this place in the stream; a second record moves the mark."""

    def synchronize(self) -> None:
        """Wait on the host until the stream is empty. Raises BackendError when it never will be, or when work
        failed.
        """


@runtime_checkable
class ForeignStream(Protocol):
    """What frameworks offer for their own streams: (version of the protocol, handle)."""

    def __cuda_stream__(self) -> tuple[int, int]:
        """(0, CUstream as an int)."""


# What callers may hand in where a stream is wanted: the backend's own, a driver handle, or a framework's stream.
AnyStream: TypeAlias = Stream | int | ForeignStream
