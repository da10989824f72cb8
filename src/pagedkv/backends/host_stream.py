"""Streams and events of the host: queues of closures that run in stream order, at once or when stepped.

Owns: each stream its queue, each event its set of outstanding records.
Order: a stream runs its queue front to back; a wait at the front holds it until *that* record has happened.
Eager streams run whatever can run as soon as it is put on; stepped ones run one operation a `step()`, so a
test chooses the interleaving.
Failure: work that raises makes the device fail for good, as a CUDA context does: every later call raises that
error. Unlike CUDA, a wait on an event that nobody has recorded blocks (CUDA takes it as passed): a lost
`record` must show, not vanish. `synchronize` never hangs: what cannot progress is a BackendError.
Threads: one at a time. Cost: O(1) an operation.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from pagedkv.errors import BackendError, InvalidArgumentError
from pagedkv.streams import Event


@dataclass(slots=True)
class HostDevice:
    """What the streams and events of one backend share: the failure that ended it, if any."""

    failure: BackendError | None = field(default=None)

    def check(self) -> None:
        """Raise the failure, if there was one."""
        if self.failure is not None:
            raise self.failure


@dataclass(slots=True)
class _Operation:
    """One queue entry: `run` is what it does; with `awaited` it is a wait for record number `number` of that
    event.
    """

    run: Callable[[], None] | None
    awaited: HostEvent | None = None
    number: int = 0

    def blocked(self) -> bool:
        return self.awaited is not None and not self.awaited.happened(self.number)


class HostEvent:
    """A mark in a HostStream. See `pagedkv.streams.Event`."""

    def __init__(self, device: HostDevice | None = None) -> None:
        self._device = device or HostDevice()
        self._records = 0
        self._outstanding: dict[int, HostStream] = {}
        self._waiters: dict[HostStream, None] = {}

    @property
    def done(self) -> bool:
        self._device.check()
        return self.happened(self._records)

    def synchronize(self) -> None:
        while not self.done:
            _run_one(self._recorder(self._records), call="Event.synchronize")

    def happened(self, number: int) -> bool:
        """Whether record `number` (from 1) has happened."""
        return 0 < number <= self._records and number not in self._outstanding

    def recorder(self, number: int) -> HostStream | None:
        """The stream that still has to reach record `number`; None: nobody has recorded it."""
        return self._outstanding.get(number)

    def awaited_number(self) -> int:
        """The record that a wait put on a stream now refers to: the latest, or the first one to come."""
        return max(1, self._records)

    def _recorder(self, number: int) -> HostStream:
        stream = self.recorder(number)
        if stream is None:
            raise _deadlock("Event.synchronize", "the event was never recorded")
        return stream

    def _enlist(self, stream: HostStream) -> int:
        self._records += 1
        self._outstanding[self._records] = stream
        return self._records

    def _happen(self, number: int) -> None:
        del self._outstanding[number]
        waiters, self._waiters = self._waiters, {}
        for stream in waiters:
            stream._pump()

    def _notify(self, stream: HostStream) -> None:
        self._waiters[stream] = None


class HostStream:
    """A queue of closures. See `pagedkv.streams.Stream`.

    stepped=False: work runs as soon as nothing before it is held back. stepped=True: only `step` and the
    synchronizing calls run it. Streams and events meant to work together share one `device`.
    """

    def __init__(self, *, stepped: bool = False, device: HostDevice | None = None) -> None:
        self._device = device or HostDevice()
        self._stepped = stepped
        self._queue: deque[_Operation] = deque()

    @property
    def pending(self) -> int:
        """Operations on the queue that have not run."""
        return len(self._queue)

    @property
    def blocked(self) -> bool:
        """Whether the front of the queue waits for an event that has not happened."""
        return bool(self._queue) and self._queue[0].blocked()

    def enqueue(self, operation: Callable[[], None]) -> None:
        """Put `operation` on the stream. Raises BackendError if it runs at once and fails, or if the device
        has failed.
        """
        self._put(_Operation(operation))

    def wait(self, event: Event) -> None:
        awaited = _own_event(event)
        self._put(_Operation(None, awaited, awaited.awaited_number()))

    def record(self, event: Event) -> None:
        recorded = _own_event(event)
        self._device.check()
        number = recorded._enlist(self)
        self._put(_Operation(lambda: recorded._happen(number)))

    def step(self) -> bool:
        """Run one operation, if there is one and it is not held back; returns whether one ran.

        Raises BackendError when the operation fails or the device has failed before.
        """
        self._device.check()
        if not self._queue or self._queue[0].blocked():
            return False
        self._run(self._queue.popleft())
        return True

    def synchronize(self) -> None:
        self._device.check()
        while self._queue:
            _run_one(self, call="Stream.synchronize")

    def holder(self) -> tuple[HostEvent, HostStream | None] | None:
        """The event that holds the front back with the stream to record it (None: nobody); None: nothing
        holds it.
        """
        front = self._queue[0] if self._queue else None
        if front is None or front.awaited is None or not front.blocked():
            return None
        return front.awaited, front.awaited.recorder(front.number)

    def _put(self, operation: _Operation) -> None:
        self._device.check()
        self._queue.append(operation)
        self._pump()

    def _pump(self) -> None:
        if self._stepped:
            return
        while self.step():
            pass
        held = self.holder()
        if held is not None:
            held[0]._notify(self)

    def _run(self, operation: _Operation) -> None:
        if operation.run is None:
            return
        try:
            operation.run()
        except Exception as error:
            self._device.failure = _failure(error)
            raise self._device.failure from error


def _run_one(stream: HostStream, *, call: str) -> None:
    """Run one operation that brings `stream` closer to its end: its own front, or one that the front waits
    for.
    """
    visited = {id(stream)}
    while (held := stream.holder()) is not None:
        recorder = held[1]
        if recorder is None:
            raise _deadlock(call, "a stream waits for an event that nobody has recorded")
        if id(recorder) in visited:
            raise _deadlock(call, "streams wait for events that are recorded behind those waits")
        visited.add(id(recorder))
        stream = recorder
    stream.step()


def _own_event(event: Event) -> HostEvent:
    if not isinstance(event, HostEvent):
        raise InvalidArgumentError(f"{type(event).__name__} is no event of this backend; make it with backend.event()")
    return event


def own_stream(stream: object) -> HostStream:
    """`stream` as a HostStream. Raises InvalidArgumentError for another backend's stream."""
    if not isinstance(stream, HostStream):
        raise InvalidArgumentError(
            f"{type(stream).__name__} is no stream of this backend; make it with backend.stream()"
        )
    return stream


def _deadlock(call: str, why: str) -> BackendError:
    return BackendError(name="DEADLOCK", text=f"{why}; record the event first, before the wait", call=call)


def _failure(error: Exception) -> BackendError:
    if isinstance(error, BackendError):
        return error
    return BackendError(name=type(error).__name__, text=str(error), call="host stream")
