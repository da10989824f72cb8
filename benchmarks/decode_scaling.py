"""A decode step is linear in the batch and flat in the pool's size and the sequences' length."""

from benchmarks.batch import BLOCK_SIZE, DecodeBatch, blocks_needed, clean_manager
from benchmarks.clock import Case, Sample, interleave
from benchmarks.report import Benchmark, Row, Settings, Target, timed

RUNNING = 256


def run(settings: Settings) -> list[Row]:
    return [*by_batch(settings), *by_pool(settings), *by_length(settings)]


def by_batch(settings: Settings) -> list[Row]:
    """Sequences of one prompt length in one pool size; the cost a sequence must not rise with the batch."""
    sizes = settings.pick((64, 128, 256, 512, 1024, 2048, 4096), (4, 8))
    prompt_tokens = settings.pick(1024, 32)
    blocks = blocks_needed(sizes[-1], prompt_tokens)
    batches = {n: DecodeBatch(clean_manager(blocks), n, prompt_tokens) for n in sizes}
    samples = measure({str(n): batch.read for n, batch in batches.items()}, settings, 60)
    rows = [timed(f"batch of {n}", samples[str(n)]) for n in sizes]
    middle = len(sizes) // 2
    few, many = (rows[i].value * 1e3 / sizes[i] for i in (middle, -1))
    case = f"cost a sequence, batch of {sizes[-1]} against {sizes[middle]}"
    return [*rows, Row(case, many / few, "x", Target(1.5), note=f"{many:.1f} ns against {few:.1f} ns")]


def by_pool(settings: Settings) -> list[Row]:
    """The same batch in ever larger pools: in order, and with the free blocks in random memory order."""
    sizes = settings.pick((10_000, 100_000, 1_000_000, 4_000_000), (500, 1_000))
    prompt_tokens = settings.pick(256, 16)
    rows = []
    for order, shuffled in (("in order", False), ("shuffled", True)):
        running = settings.pick(RUNNING, 8)
        cases = {
            f"pool of {blocks:,} blocks, free list {order}": DecodeBatch(
                clean_manager(blocks, shuffled=shuffled), running, prompt_tokens
            ).read
            for blocks in sizes
        }
        rows += flat(cases, settings, f"largest against smallest pool, {order}")
    return rows


def by_length(settings: Settings) -> list[Row]:
    """64 sequences of 1k to 512k tokens each."""
    lengths = settings.pick((1, 8, 64, 512), (1, 2))
    running = settings.pick(64, 4)
    cases: dict[str, Case] = {}
    for thousands in lengths:
        tokens = thousands * settings.pick(1024, BLOCK_SIZE)
        batch = DecodeBatch(clean_manager(blocks_needed(running, tokens)), running, tokens)
        cases[f"{running} sequences of {tokens:,} tokens"] = batch.read
    return flat(cases, settings, "longest against shortest sequences")


def flat(cases: dict[str, Case], settings: Settings, ratio_case: str) -> list[Row]:
    """A row for each case and one for the last against the first, which should be about one."""
    samples = measure(cases, settings, 150)
    rows = [timed(name, samples[name]) for name in cases]
    return [*rows, Row(ratio_case, rows[-1].value / rows[0].value, "x", Target(1.5))]


def measure(cases: dict[str, Case], settings: Settings, rounds: int) -> dict[str, list[Sample]]:
    return interleave(cases, settings.pick(rounds, 2))


BENCHMARK = Benchmark("decode-scaling", "decode step over batch, pool size and sequence length", run)
