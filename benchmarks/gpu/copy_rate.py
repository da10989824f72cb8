"""copy_blocks over a pool beyond 4 GiB, as a share of one device-to-device copy of the same bytes, interleaved."""

from statistics import median

from benchmarks.gpu.device import EventPair
from benchmarks.gpu.scattered import Scattered, device_copy
from benchmarks.report import Benchmark, Row, Settings, Target
from pagedkv import DevicePool, OpaqueLayout

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
TARGETS = {8 * KIB: 90.0, 64 * KIB: 92.0, 512 * KIB: 93.0, 2 * MIB: 95.0}
WARM_UP = 3


def run(settings: Settings) -> list[Row]:
    pool_bytes, copied = settings.pick(12 * GIB, 64 * MIB), settings.pick(2 * GIB, 8 * MIB)
    runs = settings.pick(21, 2)
    plain = DevicePool(OpaqueLayout(4096, 16), 2 * copied // 65536, device="cuda:0")
    plain.fill_blocks(range(plain.num_blocks), range(plain.num_blocks))
    plain.stream.synchronize()
    rows = [row for size in TARGETS for row in measure(size, pool_bytes, copied, runs, plain)]
    plain.close()
    return rows


def measure(size: int, pool_bytes: int, copied: int, runs: int, plain: DevicePool) -> list[Row]:
    scattered = Scattered(size, pool_bytes, seed=size)
    stream = scattered.pool.stream
    sets = [scattered.pairs(copied // size) for _ in range(WARM_UP + runs)]
    launches = [scattered.launcher(pairs) for pairs in sets]
    timers = [(EventPair(), EventPair()) for _ in launches]

    def whole() -> None:
        device_copy(plain.base + copied, plain.base, copied, stream.handle)  # type: ignore[attr-defined]

    # All are put on the stream at once: the device is never idle, so no launch time is in a figure.
    for index, (launch, (ours, theirs)) in enumerate(zip(launches, timers, strict=True)):
        order = ((ours, launch), (theirs, whole))
        for timer, work in order if index % 2 else order[::-1]:
            timer.around(stream, work)  # type: ignore[arg-type]
    measured = [(ours.microseconds(), theirs.microseconds()) for ours, theirs in timers][WARM_UP:]
    for pairs in sets:
        scattered.note(pairs)
    scattered.close()
    kernel, plain_copy = ([pair[side] for pair in measured] for side in (0, 1))
    share = 100 * median(plain_copy) / median(kernel)
    per_pair = sorted(100 * b / a for a, b in measured)
    note = (
        f"{copied // size} blocks; kernel {median(kernel):.1f} us ({min(kernel):.1f} .. {max(kernel):.1f}), "
        f"device copy {median(plain_copy):.1f} us ({min(plain_copy):.1f} .. {max(plain_copy):.1f}); "
        f"shares run by run {per_pair[0]:.2f} .. {per_pair[-1]:.2f}; medians of {runs}"
    )
    rate = 2 * copied / median(kernel) / 1e3
    name = f"{size // KIB} KiB blocks over {pool_bytes / GIB:g} GiB"
    return [
        Row(f"{name}, of a device copy", share, "%", Target(TARGETS[size], at_least=True), note=note),
        Row(f"{name}, read and written", rate, "GB/s"),
    ]


BENCHMARK = Benchmark("copy-rate", "scattered block copies against one device-to-device copy", run, in_process=False)
