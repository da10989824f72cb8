"""Prefix reuse of 32k-token prompts with a million cached blocks: hit, insert, eviction; beside vLLM's figures."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from benchmarks import sglang_results, vllm_results
from benchmarks.batch import BLOCK_SIZE
from benchmarks.clock import Sample, Stopwatch, interleave
from benchmarks.report import Benchmark, Row, Settings, Target, timed
from pagedkv import KVCacheManager

Tokens = NDArray[np.int32]
PROMPT = 32 * 1024
HIT_TARGET_US, INSERT_TARGET_US, EVICTION_TARGET_US = 60.0, 150.0, 0.3
TIMES_FASTER = {"sha256": 100.0, "xxhash": 80.0}


class CachedPrompts:
    """A pool whose blocks are all cached: prompts of `tokens` tokens, one after another, each ended at once.

    shuffled: block ids are handed out in random memory order, as after hours of serving.
    """

    def __init__(self, blocks: int, tokens: int, *, shuffled: bool = False) -> None:
        per_prompt = tokens // BLOCK_SIZE
        self.tokens = tokens
        self.blocks = blocks // per_prompt * per_prompt
        self.manager = KVCacheManager(self.blocks, BLOCK_SIZE, prefix_caching=True)
        if shuffled:
            ids = self.manager.allocator.allocate(self.blocks)
            np.random.default_rng(0).shuffle(ids)
            self.manager.allocator.free(ids)
        generator = np.random.default_rng(1)
        self.prompts = [self._drawn(generator) for _ in range(self.blocks // per_prompt)]
        for prompt in self.prompts:
            self.insert(prompt)
        self._order = self._forever(len(self.prompts))
        self._fresh = (self._drawn(generator) for _ in iter(int, 1))

    def _drawn(self, generator: np.random.Generator) -> Tokens:
        # One token more than the blocks hold, so that every block may be hit.
        return generator.integers(0, 128_256, self.tokens + 1, dtype=np.int32)

    def _forever(self, count: int) -> Iterator[int]:
        generator = np.random.default_rng(2)
        while True:
            yield from generator.permutation(count).tolist()

    def insert(self, prompt: Tokens) -> Sample:
        """Admit, append and commit a prompt; then it ends."""
        manager, head = self.manager, prompt[:-1]
        watch = Stopwatch()
        cached = manager.admit(0, head).cached_tokens
        manager.append([0], [self.tokens - cached])
        manager.commit([0], [self.tokens])
        sample = watch.stop()
        manager.free([0])
        return sample

    def new(self) -> Sample:
        """A prompt that nobody knows: every block of it evicts one."""
        sample = self.insert(prompt := next(self._fresh))
        # It took the place of the least recently released one.
        self.prompts = [*self.prompts[1:], prompt]
        return sample

    def hit(self) -> Sample:
        """A full hit of a prompt that was not used for long: match, reference, reserve nothing more."""
        prompt = self.prompts[next(self._order) % len(self.prompts)]
        manager = self.manager
        watch = Stopwatch()
        admission = manager.admit(0, prompt, reserve=0)
        sample = watch.stop()
        assert admission.cached_tokens in (self.tokens, 0), "a prompt is known as a whole or was evicted as a whole"
        manager.free([0])
        return sample if admission.cached_tokens else self.hit()


def run(settings: Settings) -> list[Row]:
    million, tokens = settings.pick(1_000_000, 640), settings.pick(PROMPT, 64)
    rounds = settings.pick(400, 2)
    pools = {
        f"{million:,} cached blocks": CachedPrompts(million, tokens),
        f"{million:,} cached blocks, ids in random memory order": CachedPrompts(million, tokens, shuffled=True),
        f"{million // 10:,} cached blocks": CachedPrompts(million // 10, tokens),
    }
    hits = interleave({name: pool.hit for name, pool in pools.items()}, rounds)
    first, scattered, _ = pools
    rows = [
        timed(f"full hit of {tokens:,} tokens, {name}", samples, target_us=HIT_TARGET_US if name == first else None)
        for name, samples in hits.items()
    ]
    if settings.vllm_results is not None and tokens == PROMPT:
        rows += [row for fn in TIMES_FASTER for row in against_vllm(settings, rows[0], fn)]
    rows += [
        inserted(tokens, rounds // 4 + 1),
        evicted(pools[first], rounds),
        evicted(pools[scattered], rounds, scattered),
    ]
    rows += conversation(settings, tokens, rounds)
    for pool in pools.values():
        pool.manager.check()
    return rows


def inserted(tokens: int, rounds: int) -> Row:
    """Warm: a small pool whose memory was all used before; every block evicts one."""
    pool = CachedPrompts(4 * tokens // BLOCK_SIZE, tokens)
    samples = interleave({"new": pool.new}, rounds + 8)["new"]
    return timed(
        f"insert and commit of {tokens:,} new tokens, each block evicts one", samples, target_us=INSERT_TARGET_US
    )


def evicted(pool: CachedPrompts, rounds: int, name: str = "") -> Row:
    """Allocation out of cached blocks alone, a block; sequences of one prompt's size, given back unpublished."""
    manager, blocks = pool.manager, pool.tokens // BLOCK_SIZE
    samples = []
    for _ in range(min(rounds, pool.blocks // blocks - 1)):
        clean = manager.get_stats().clean_blocks
        if clean:
            manager.admit(1, (), reserve=clean * BLOCK_SIZE)
        watch = Stopwatch()
        manager.admit(2, (), reserve=blocks * BLOCK_SIZE)
        samples.append(watch.stop(blocks))
        manager.free([1, 2] if clean else [2])
    case = "eviction inside an allocation, a block" + (f", {name}" if name else "")
    return timed(case, samples, target_us=EVICTION_TARGET_US)


def conversation(settings: Settings, tokens: int, rounds: int) -> list[Row]:
    """A conversation that came in turns, found again as a whole; SGLang's median beside our median."""
    turn = settings.pick(512, 32)
    manager = KVCacheManager(2 * tokens // BLOCK_SIZE, BLOCK_SIZE, prefix_caching=True)
    said = np.random.default_rng(3).integers(0, 128_256, tokens + 1, dtype=np.int32)
    for end in range(turn, tokens + 1, turn):
        cached = manager.admit(0, said[:end], max_hit_tokens=end).cached_tokens
        manager.append([0], [end - cached])
        manager.commit([0], [end])
        manager.free([0])

    def again() -> Sample:
        watch = Stopwatch()
        cached = manager.admit(0, said, reserve=0).cached_tokens
        sample = watch.stop()
        assert cached == tokens
        manager.free([0])
        return sample

    ours = timed(f"conversation of {tokens // turn} turns: match, reference", interleave({"": again}, rounds)[""])
    theirs = None if settings.sglang_results is None else sglang_results.chain_match_us(settings.sglang_results)
    if theirs is None or ours.spread is None:
        return [ours]
    mine = ours.spread.wall_median
    note = f"medians: match and indices {theirs:.1f} us there, match and references {mine:.1f} us here"
    return [
        ours,
        Row(
            "the same, times faster than SGLang's Rust core", theirs / mine, "x", Target(1.0, at_least=True), note=note
        ),
    ]


def against_vllm(settings: Settings, ours: Row, fn: str) -> list[Row]:
    """Beside vLLM's hash + lookup + allocate of a full hit."""
    assert settings.vllm_results is not None
    parts = vllm_results.full_hit(settings.vllm_results, PROMPT, fn)
    if parts is None:
        return []
    case = f"full hit of {PROMPT:,} tokens, times faster than vLLM with {fn}"
    row = vllm_results.times_faster(case, ours, parts, at_least=TIMES_FASTER[fn], parts="hash, look up, allocate")
    return [row]


BENCHMARK = Benchmark("prefix-reuse", "hit, insert, eviction with a million cached blocks", run)
