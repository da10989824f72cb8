"""CUDA streams and events: ours, or an engine's own stream taken as it is.

Driver facts relied on: work on one stream runs in order; an event recorded on a stream has happened once all work put
there before is done; recording an event again moves it. A stream that is being captured into a graph runs nothing
until the graph is launched, so whoever waits on the host would wait for ever: `capturing` tells.
"""

from __future__ import annotations

from pagedkv.backends.cuda_driver import Driver, driver_error
from pagedkv.errors import BackendError, InvalidArgumentError
from pagedkv.streams import Event, ForeignStream


class CudaEvent:
    """See `pagedkv.streams.Event`."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._recorded = False
        if driver.spare_events:
            self.handle = driver.spare_events.pop()
            return
        with driver.current():
            self.handle = driver.call("cuEventCreate", driver.module.CUevent_flags.CU_EVENT_DISABLE_TIMING)

    def __del__(self) -> None:
        # It may still be pending: recording it again moves it, and who waits for it waits for the record it saw.
        if hasattr(self, "handle"):
            self._driver.spare_events.append(self.handle)

    @property
    def done(self) -> bool:
        if not self._recorded:
            return False
        code, *_ = self._driver.module.cuEventQuery(self.handle)
        results = self._driver.module.CUresult
        if code == results.CUDA_ERROR_NOT_READY:
            return False
        if code != results.CUDA_SUCCESS:
            raise driver_error(self._driver.module, code, "cuEventQuery")
        return True

    def synchronize(self) -> None:
        if not self._recorded:
            raise BackendError(name="NEVER_RECORDED", text="this event was never recorded", call="cuEventSynchronize")
        with self._driver.current():
            self._driver.call("cuEventSynchronize", self.handle)

    def mark_recorded(self) -> None:
        """A stream has recorded it."""
        self._recorded = True


class CudaStream:
    """See `pagedkv.streams.Stream`. `foreign` streams belong to somebody else and are never destroyed here."""

    def __init__(self, driver: Driver, foreign: int | None = None) -> None:
        self._driver = driver
        self._foreign = foreign is not None
        if foreign is not None or driver.spare_streams:
            self.handle = driver.spare_streams.pop() if foreign is None else foreign
            return
        flags = driver.module.CUstream_flags.CU_STREAM_NON_BLOCKING
        with driver.current():
            stream = driver.call("cuStreamCreate", flags)
        self.handle = int(stream)

    def __del__(self) -> None:
        # Work may still be on it: its next owner's comes behind, which costs time at most.
        if not self._foreign and hasattr(self, "handle"):
            self._driver.spare_streams.append(self.handle)

    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, self.handle)

    @property
    def capturing(self) -> bool:
        """Whether it is being captured into a graph."""
        status = self._driver.call("cuStreamIsCapturing", self.handle)
        return bool(status != self._driver.module.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE)

    def wait(self, event: Event) -> None:
        with self._driver.current():
            self._driver.call("cuStreamWaitEvent", self.handle, own_event(event).handle, 0)

    def record(self, event: Event) -> None:
        mark = own_event(event)
        with self._driver.current():
            self._driver.call("cuEventRecord", mark.handle, self.handle)
        mark.mark_recorded()

    def synchronize(self) -> None:
        with self._driver.current():
            self._driver.call("cuStreamSynchronize", self.handle)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CudaStream) and other.handle == self.handle

    def __hash__(self) -> int:
        return hash(self.handle)


def own_event(event: Event) -> CudaEvent:
    """The CudaEvent that it must be. Raises InvalidArgumentError for another backend's."""
    if not isinstance(event, CudaEvent):
        raise InvalidArgumentError(f"{type(event).__name__} is no event of this backend; make it with backend.event()")
    return event


def as_stream(driver: Driver, stream: object) -> CudaStream:
    """A stream given as ours, as an int handle, or by the `__cuda_stream__` protocol."""
    if isinstance(stream, CudaStream):
        return stream
    if isinstance(stream, ForeignStream):
        stream = stream.__cuda_stream__()[1]
    if isinstance(stream, bool) or not isinstance(stream, int) or stream < 0:
        raise InvalidArgumentError(
            f"{stream!r} is no CUDA stream; give a handle (int), an object with __cuda_stream__, or None"
        )
    return CudaStream(driver, foreign=stream)
