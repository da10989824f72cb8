"""Eight blocks of 2 MiB: what a step's copy-on-write costs on the device; other blocks each time, so caches are cold."""

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
    done = 0

    def all_of_them() -> None:
        for launch in launches:
            launch()

    # Single launches between two events, put on behind long copies so that the device has them all before it starts.
    singles = []
    for _ in range(rounds):
        keep_busy(scattered)
        timers = [EventPair() for _ in launches]
        for timer, launch in zip(timers, launches, strict=True):
            timer.around(stream, launch)  # type: ignore[arg-type]
        singles += [timer.microseconds() for timer in timers]
        done += 1

    graph = capture(stream, all_of_them)  # type: ignore[arg-type]
    replays = []
    for _ in range(rounds + 1):
        keep_busy(scattered)
        whole = EventPair()
        whole.around(stream, lambda: call("cuGraphLaunch", graph, stream.handle))  # type: ignore[arg-type, attr-defined]
        replays.append(whole.microseconds() / sets)
        done += 1
    for _ in range(done):
        for pairs in chosen:
            scattered.note(pairs)
    scattered.close()
    replays = replays[1:]
    return [
        row("event-timed", singles, f"one launch between two events, median of {len(singles)}"),
        row("graph replay", replays, f"{sets} launches in one graph, other blocks each; median of {rounds} replays"),
    ]


def row(how: str, values: list[float], note: str) -> Row:
    note = f"{note}; {min(values):.2f} .. {max(values):.2f}"
    return Row(f"{BLOCKS} blocks of 2 MiB, {how}", median(values), "us", Target(TARGET_US), note=note)


def keep_busy(scattered: Scattered) -> None:
    """Some milliseconds of copies in place of a spin kernel: a block onto the scratch space behind the pairs' pool."""
    pool = scattered.pool
    first, size = pool.base, pool.layout.block_bytes
    for _ in range(400):
        # Onto itself: the contents stay as they are.
        device_copy(first, first, size, pool.stream.handle)  # type: ignore[attr-defined]


BENCHMARK = Benchmark("few-blocks", "eight blocks of 2 MiB", run, in_process=False)
