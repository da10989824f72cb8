"""get_stats() at any size of the pool."""

from benchmarks.batch import BLOCK_SIZE, DecodeBatch
from benchmarks.clock import Case, Sample, Stopwatch, interleave
from benchmarks.report import Benchmark, Row, Settings, timed
from pagedkv import KVCacheManager

TARGET_US = 1.0


def run(settings: Settings) -> list[Row]:
    calls = settings.pick(1_000, 10)
    cases = {}
    for blocks, running in settings.pick(((1_000, 16), (1_000_000, 4_096)), ((200, 2), (400, 4))):
        manager = KVCacheManager(blocks, BLOCK_SIZE)
        DecodeBatch(manager, running, 256)
        cases[f"{blocks:,} blocks, {running:,} sequences"] = repeated(manager, calls)
    samples = interleave(cases, settings.pick(200, 2))
    return [timed(name, samples[name], target_us=TARGET_US) for name in cases]


def repeated(manager: KVCacheManager, calls: int) -> Case:
    def measure() -> Sample:
        get_stats = manager.get_stats
        watch = Stopwatch()
        for _ in range(calls):
            get_stats()
        return watch.stop(calls)

    return measure


BENCHMARK = Benchmark("get-stats", "the statistics of a small and a large pool", run)
