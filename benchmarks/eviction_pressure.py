"""A decode step in a pool whose free blocks are all cached, so that every block taken evicts one."""

from benchmarks.batch import PERIODS, DecodeBatch, EvictingBatch, blocks_needed, cached_manager, clean_manager
from benchmarks.clock import interleave
from benchmarks.report import Benchmark, Row, Settings, Target, timed


def run(settings: Settings) -> list[Row]:
    running, prompt_tokens = settings.pick(256, 8), settings.pick(1024, 32)
    blocks = settings.pick(100_000, 2 * blocks_needed(8, 32))
    evicting_manager = cached_manager(blocks)
    clean = DecodeBatch(clean_manager(blocks, shuffled=True), running, prompt_tokens)
    evicting = EvictingBatch(evicting_manager, running, prompt_tokens)
    before = evicting_manager.get_stats().evictions
    rounds = settings.pick(300, 4)
    samples = interleave({"clean": clean.read, "evicting": evicting.read}, rounds)
    evictions = evicting_manager.get_stats().evictions - before
    if evictions < rounds * running * PERIODS:
        raise RuntimeError(f"{evictions} evictions, fewer than blocks taken: there was no pressure")
    rows = [timed(f"{running} running, {name} blocks", samples[name]) for name in ("clean", "evicting")]
    note, ratio = f"{evictions:,} evictions", rows[1].value / rows[0].value
    return [*rows, Row("evicting against clean", ratio, "x", Target(2.0), note=note)]


BENCHMARK = Benchmark("eviction-pressure", "decode step when every block taken evicts one", run)
