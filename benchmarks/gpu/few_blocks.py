"""Eight blocks of 2 MiB, what copy-on-write may cost in a step; other blocks each time, so that caches are cold."""

from statistics import median

from benchmarks.gpu.copy_rate import GIB, MIB
from benchmarks.gpu.device import EventPair, call, capture
from benchmarks.gpu.scattered import Scattered, device_copy
from benchmarks.report import Benchmark, Row, Settings, Target

TARGET_US = 15.0
BLOCKS = 8


def run(settings: Settings) -> list[Row]:
    pool_bytes, sets, rounds = settings.pick(12 * GIB, 256 * MIB), settings.pick(96, 2), settings.pick(15, 2)
    scattered = Scattered(2 * MIB, pool_bytes, seed=8)
    stream = scattered.pool.stream
    chosen = [scattered.pairs(BLOCKS) for _ in range(sets)]
    launches = [scattered.launcher(pairs) for pairs in chosen]
    backlog, done = Backlog(scattered), 0

    def all_of_them() -> None:
        for launch in launches:
            launch()

    # Single launches between two events, put on behind long copies so that the device has them all before it starts.
    singles = []
    for _ in range(rounds):
        backlog.put()
        timers = [EventPair() for _ in launches]
        for timer, launch in zip(timers, launches, strict=True):
            timer.around(stream, launch)  # type: ignore[arg-type]
        singles += [timer.microseconds() for timer in timers]
        done += 1

    graph = capture(stream, all_of_them)  # type: ignore[arg-type]
    replays = []
    for _ in range(rounds + 1):
        backlog.put()
        whole = EventPair()
        whole.around(stream, lambda: call("cuGraphLaunch", graph, stream.handle))  # type: ignore[arg-type, attr-defined]
        replays.append(whole.microseconds() / sets)
        done += 1
    for _ in range(done):
        for pairs in chosen:
            scattered.note(pairs)
    backlog.release()
    scattered.close()
    replays = replays[1:]
    return [
        row("event-timed", singles, f"one launch between two events, median of {len(singles)}"),
        row("graph replay", replays, f"{sets} launches in one graph, other blocks each; median of {rounds} replays"),
    ]


def row(how: str, values: list[float], note: str) -> Row:
    note = f"{note}; {min(values):.2f} .. {max(values):.2f}"
    return Row(f"{BLOCKS} blocks of 2 MiB, {how}", median(values), "us", Target(TARGET_US), note=note)


class Backlog:
    """Some milliseconds of copies: what is put on behind them is all there when the device gets to it."""

    def __init__(self, scattered: Scattered) -> None:
        self._pool = scattered.pool
        self._size = min(64 * MIB, scattered.pool.nbytes)
        self._target = self._pool.backend.allocate(self._size)

    def put(self) -> None:
        for _ in range(200):
            device_copy(self._target.address, self._pool.base, self._size, self._pool.stream.handle)  # type: ignore[attr-defined]

    def release(self) -> None:
        self._pool.backend.free(self._target)


BENCHMARK = Benchmark("few-blocks", "eight blocks of 2 MiB", run, in_process=False)
