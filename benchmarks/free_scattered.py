"""Free of a long sequence whose block ids are scattered over a large pool."""

from benchmarks.batch import BLOCK_SIZE, clean_manager
from benchmarks.clock import Sample, Stopwatch, settled_gc
from benchmarks.report import Benchmark, Row, Settings, timed
from pagedkv import KVCacheManager

TARGET_US = 75.0


def run(settings: Settings) -> list[Row]:
    pool, blocks = settings.pick(1_000_000, 400), settings.pick(8_192, 16)
    manager = clean_manager(pool, shuffled=True)
    warm_rounds = settings.pick(100, 2)
    with settled_gc():
        cold = [s for _ in range(settings.pick(3, 1)) for s in free_in_turn(manager, pool // blocks, blocks)]
        warm = [s for _ in range(warm_rounds) for s in free_in_turn(manager, 1, blocks)]
    case = f"{blocks:,} of {pool:,} blocks"
    return [
        timed(f"{case}, untouched since the pool was filled", cold, target_us=TARGET_US),
        timed(f"{case}, taken just before", warm),
    ]


def free_in_turn(manager: KVCacheManager, sequences: int, blocks: int) -> list[Sample]:
    """Fill the pool with `sequences` sequences, then free one after another, oldest (coldest) first."""
    for seq_id in range(sequences):
        manager.admit(seq_id, (), reserve=blocks * BLOCK_SIZE)
    samples = []
    for seq_id in range(sequences):
        ids = [seq_id]
        watch = Stopwatch()
        manager.free(ids)
        samples.append(watch.stop())
    return samples


BENCHMARK = Benchmark("free-scattered", "free of 8,192 scattered blocks", run)
