"""Test doubles of the host backend that fail on purpose: a call that returns an error, and work that fails later.

Everything else is the real host backend, so what is tested is how the layers above take the failure.
"""

from __future__ import annotations

from collections.abc import Callable

from pagedkv.backends.host import HostBackend, HostBuffer, HostEvent, HostStream
from pagedkv.errors import BackendError
from pagedkv.streams import Buffer, Event


class Faults:
    """Counts device calls and fails from the `fail_at`-th on, like a driver after a sticky error; 0: never."""

    def __init__(self, fail_at: int = 0) -> None:
        self.fail_at = fail_at
        self.calls: list[str] = []

    def call(self, name: str) -> None:
        self.calls.append(name)
        if 0 < self.fail_at <= len(self.calls):
            raise BackendError(name="INJECTED_FAULT", text=f"call {len(self.calls)} was made to fail", call=name)


class FaultyStream(HostStream):
    """A host stream whose calls go through `faults` first."""

    faults: Faults

    def enqueue(self, operation: Callable[[], None]) -> None:
        self.faults.call("enqueue")
        super().enqueue(operation)

    def wait(self, event: Event) -> None:
        self.faults.call("wait")
        super().wait(event)

    def record(self, event: Event) -> None:
        self.faults.call("record")
        super().record(event)

    def synchronize(self) -> None:
        self.faults.call("synchronize")
        super().synchronize()


class FaultyEvent(HostEvent):
    """A host event whose queries go through `faults` first."""

    faults: Faults

    @property
    def done(self) -> bool:
        self.faults.call("done")
        return super().done


class FaultyBackend(HostBackend):
    """A host backend in which the `fail_at`-th call and all later ones fail; it keeps account of its memory."""

    def __init__(self, fail_at: int = 0) -> None:
        super().__init__()
        self.faults = Faults(fail_at)
        self.live_buffers = 0

    def allocate(self, nbytes: int) -> HostBuffer:
        self.faults.call("allocate")
        self.live_buffers += 1
        return super().allocate(nbytes)

    def free(self, buffer: Buffer) -> None:
        # Memory goes back even though the device reports an error, as with a driver whose context is gone.
        super().free(buffer)
        self.live_buffers -= 1
        self.faults.call("free")

    def stream(self) -> HostStream:
        self.faults.call("stream")
        stream = FaultyStream(device=self._device)
        stream.faults = self.faults
        return stream

    def event(self) -> HostEvent:
        self.faults.call("event")
        event = FaultyEvent(self._device)
        event.faults = self.faults
        return event
