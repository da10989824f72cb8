"""Host streams: order, stepping, waits, failure, and what can never progress."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pagedkv.backends.host import HostBackend, HostStream
from pagedkv.errors import BackendError


class Log(list[str]):
    """Operations write their names into it."""

    def entry(self, name: str) -> Callable[[], None]:
        return lambda: self.append(name)


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def backend() -> HostBackend:
    return HostBackend(stepped=True)


def test_an_eager_stream_runs_at_once(log: Log) -> None:
    stream = HostStream()
    stream.enqueue(log.entry("a"))
    assert (log, stream.pending) == (["a"], 0)


def test_a_stepped_stream_runs_one_operation_a_step(log: Log) -> None:
    stream = HostStream(stepped=True)
    for name in "abc":
        stream.enqueue(log.entry(name))
    assert (log, stream.pending) == ([], 3)
    assert stream.step()
    assert (log, stream.pending) == (["a"], 2)
    stream.synchronize()
    assert (log, stream.pending) == (["a", "b", "c"], 0)
    assert not stream.step()


def test_a_wait_holds_back_what_comes_after_it_only(backend: HostBackend, log: Log) -> None:
    first, second, event = backend.stream(), backend.stream(), backend.event()
    first.enqueue(log.entry("written"))
    first.record(event)
    second.enqueue(log.entry("before"))
    second.wait(event)
    second.enqueue(log.entry("read"))
    assert second.step()
    assert second.blocked
    assert not second.step()
    assert first.step()
    assert not event.done
    assert second.blocked
    assert first.step()
    assert event.done
    assert not second.blocked
    second.synchronize()
    assert log == ["before", "written", "read"]


def test_synchronize_runs_of_other_streams_only_what_it_waits_for(backend: HostBackend, log: Log) -> None:
    first, second, event = backend.stream(), backend.stream(), backend.event()
    first.enqueue(log.entry("needed"))
    first.record(event)
    first.enqueue(log.entry("not needed"))
    second.wait(event)
    second.enqueue(log.entry("read"))
    second.synchronize()
    assert log == ["needed", "read"]
    assert first.pending == 1


def test_an_event_synchronizes_through_a_chain_of_streams(backend: HostBackend, log: Log) -> None:
    streams = [backend.stream() for _ in range(4)]
    events = [backend.event() for _ in range(4)]
    for i, stream in enumerate(streams):
        if i:
            stream.wait(events[i - 1])
        stream.enqueue(log.entry(str(i)))
        stream.record(events[i])
    events[-1].synchronize()
    assert log == ["0", "1", "2", "3"]


def test_an_eager_stream_goes_on_when_its_event_happens(log: Log) -> None:
    backend = HostBackend()
    slow, eager, event = HostStream(stepped=True), backend.stream(), backend.event()
    slow.enqueue(log.entry("slow"))
    slow.record(event)
    eager.wait(event)
    eager.enqueue(log.entry("eager"))
    assert (log, eager.pending) == ([], 2)
    slow.step()
    slow.step()
    assert (log, eager.pending) == (["slow", "eager"], 0)


def test_two_eager_streams_release_each_other_in_turn(log: Log) -> None:
    backend = HostBackend()
    left, right, one, two, three = backend.stream(), backend.stream(), *(backend.event() for _ in range(3))
    left.wait(one)
    left.enqueue(log.entry("left"))
    left.record(two)
    left.wait(three)
    left.enqueue(log.entry("left again"))
    right.wait(two)
    right.enqueue(log.entry("right"))
    right.record(three)
    backend.stream().record(one)
    assert log == ["left", "right", "left again"]
    assert left.pending == right.pending == 0


def test_a_wait_means_the_record_made_before_it(backend: HostBackend, log: Log) -> None:
    """As in CUDA: a later record of the same event does not move a wait that is already queued."""
    first, second, event = backend.stream(), backend.stream(), backend.event()
    first.record(event)
    second.wait(event)
    second.enqueue(log.entry("second"))
    first.enqueue(log.entry("first"))
    first.record(event)
    first.step()
    assert not event.done
    second.step()
    assert second.step()
    assert log == ["second"]
    event.synchronize()
    assert log == ["second", "first"]


def test_a_wait_means_the_latest_record_made_before_it(backend: HostBackend, log: Log) -> None:
    first, second, event = backend.stream(), backend.stream(), backend.event()
    first.record(event)
    first.enqueue(log.entry("first"))
    first.record(event)
    second.wait(event)
    second.enqueue(log.entry("second"))
    assert first.step()
    assert not second.step()
    second.synchronize()
    assert log == ["first", "second"]


def test_waiting_for_an_event_that_nobody_recorded_is_reported(backend: HostBackend, log: Log) -> None:
    stream, event = backend.stream(), backend.event()
    stream.wait(event)
    stream.enqueue(log.entry("late"))
    for synchronize in (stream.synchronize, event.synchronize):
        with pytest.raises(BackendError, match="recorded") as caught:
            synchronize()
        assert caught.value.name == "DEADLOCK"
    assert not event.done
    backend.stream().record(event)
    stream.synchronize()
    assert log == ["late"]


def test_waiting_for_an_event_behind_the_wait_is_reported(backend: HostBackend) -> None:
    stream, event = backend.stream(), backend.event()
    stream.wait(event)
    stream.record(event)
    for synchronize in (stream.synchronize, event.synchronize):
        with pytest.raises(BackendError, match="behind") as caught:
            synchronize()
        assert caught.value.name == "DEADLOCK"


@pytest.mark.parametrize("eager", [False, True])
def test_streams_that_wait_for_each_other_are_reported(*, eager: bool) -> None:
    backend = HostBackend(stepped=not eager)
    left, right, one, two = backend.stream(), backend.stream(), backend.event(), backend.event()
    left.wait(one)
    left.record(two)
    right.wait(two)
    right.record(one)
    for stream in (left, right):
        with pytest.raises(BackendError, match="DEADLOCK"):
            stream.synchronize()
        assert stream.pending == 2


def test_work_that_fails_ends_the_device(backend: HostBackend, log: Log) -> None:
    first, second, event = backend.stream(), backend.stream(), backend.event()

    def broken() -> None:
        raise ZeroDivisionError("the kernel divided by zero")

    first.enqueue(broken)
    first.record(event)
    second.enqueue(log.entry("never"))
    with pytest.raises(BackendError, match="divided by zero") as caught:
        first.synchronize()
    assert caught.value.name == "ZeroDivisionError"
    later: list[Callable[[], object]] = [
        first.step, second.step, second.synchronize, event.synchronize, lambda: event.done,
        lambda: second.enqueue(log.entry("no")), lambda: second.wait(event), lambda: second.record(event),
    ]  # fmt: skip
    for call in later:
        with pytest.raises(BackendError, match="divided by zero"):
            call()
    assert log == []


def test_memory_freed_under_queued_work_is_reported(backend: HostBackend) -> None:
    stream, buffer = backend.stream(), backend.allocate(64)
    backend.upload(buffer, 0, backend.host_view(buffer)[:8], stream)
    backend.free(buffer)
    with pytest.raises(BackendError, match="USE_AFTER_FREE"):
        stream.synchronize()
