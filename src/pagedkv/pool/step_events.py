"""Which steps have finished on the device: one entry a step, its events in the streams that work for it.

Invariant: steps are strictly increasing; `finished` is the greatest step that is done together with all
before it.
Cost: O(1) a step, amortised. Nothing here waits unless it is asked to.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from pagedkv.backends import Backend
from pagedkv.errors import InvalidArgumentError
from pagedkv.streams import Event, Stream


class StepEvents:
    """Events of the steps in flight, oldest first."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._in_flight: deque[tuple[int, tuple[Event, ...]]] = deque()
        self._last = 0
        self._finished = 0

    def mark(self, step: int, streams: Sequence[Stream]) -> None:
        """The work of `step` is on these streams, all of it. Raises InvalidArgumentError unless `step` is a
        new, later one.
        """
        if step <= self._last:
            raise InvalidArgumentError(
                f"step {step} was marked done after step {self._last}; mark each once, in order, after its last kernel"
            )
        events = []
        for stream in streams:
            event = self._backend.event()
            stream.record(event)
            events.append(event)
        self._in_flight.append((step, tuple(events)))
        self._last = step

    def finished(self) -> int:
        """The greatest finished step, 0 at first. Does not wait."""
        while self._in_flight and all(event.done for event in self._in_flight[0][1]):
            self._finished = self._in_flight.popleft()[0]
        return self._finished

    def wait(self, step: int) -> int:
        """Wait on the host until `step` has finished; returns what `finished` then does.

        Raises InvalidArgumentError for a step that was not marked yet: nothing would end the wait.
        """
        if step > self._last:
            raise InvalidArgumentError(
                f"step {step} was not marked done, the last one was {self._last}; call step_done first"
            )
        for marked, events in self._in_flight:
            if marked > step:
                break
            for event in events:
                event.synchronize()
        return self.finished()
