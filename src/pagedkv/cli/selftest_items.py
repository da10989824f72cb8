"""The self-test's other items: patterns, copies, a planted wrong byte, random operations, the base case."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from pagedkv.cli.selftest_outcome import require

if TYPE_CHECKING:
    from pagedkv.cache import KVCache
    from pagedkv.pool import DevicePool

BLOCKS, BLOCK_SIZE, TOKEN_BYTES = 64, 16, 72  # 72: no power of two, so a wrong stride cannot hide
OPERATIONS = 2000


def _pool(device: str) -> DevicePool:
    from pagedkv.layout import OpaqueLayout
    from pagedkv.pool import DevicePool

    return DevicePool(OpaqueLayout(TOKEN_BYTES, BLOCK_SIZE), BLOCKS, device=device)


def fill_item(device: str) -> str:
    """Write a pattern over every block of a pool and compare."""
    with _pool(device) as pool:
        ids = list(range(BLOCKS))
        pool.fill_blocks(ids, ids)
        wrong = pool.verify_blocks(ids, ids)
        require(wrong == 0, f"{wrong} of {BLOCKS} blocks do not hold what was written")
        return f"{BLOCKS} blocks, {pool.nbytes:,} bytes"


def copy_item(device: str) -> str:
    """Copy half of a pool onto the other half; both must hold the pattern."""
    half = BLOCKS // 2
    with _pool(device) as pool:
        source, destination = list(range(half)), list(range(half, BLOCKS))
        pool.fill_blocks(source, source)
        pool.copy_blocks(list(zip(source, destination, strict=True)))
        wrong = pool.verify_blocks(source + destination, source + source)
        require(wrong == 0, f"{wrong} of {BLOCKS} blocks are wrong after the copy")
        return f"{half} blocks, sources unchanged"


def planted_byte_item(device: str) -> str:
    """A check that cannot fail proves nothing: change one bit of one byte and expect exactly one wrong block."""
    with _pool(device) as pool:
        ids = list(range(BLOCKS))
        pool.fill_blocks(ids, ids)
        damaged = pool.read_blocks([7])
        pool.stream.synchronize()
        damaged[0, -1] ^= 1
        pool.write_blocks([7], damaged)
        wrong = pool.verify_blocks(ids, ids)
        require(wrong == 1, f"1 block was damaged, {wrong} were found")
        return "1 of 1"


def random_item(device: str, seed: int) -> str:
    """Admit, append, truncate and free at random; all invariants and the bytes of what ends, every time."""
    from pagedkv.cache import open_cache

    generator = random.Random(seed)
    tokens = 0
    with open_cache(BLOCKS * BLOCK_SIZE * TOKEN_BYTES, BLOCK_SIZE, TOKEN_BYTES, device=device) as cache:
        alive: list[int] = []
        for number in range(OPERATIONS):
            if generator.random() < 0.2 or not alive:
                cache.register_sequence(number)
                alive.append(number)
            else:
                tokens += _change_one(cache, alive, generator)
            cache.manager.check()
        for seq_id in alive:
            _end(cache, seq_id)
        cache.manager.check()
        free = cache.get_stats().free_blocks
        require(free == BLOCKS, f"{BLOCKS - free} blocks were lost")
    return f"{OPERATIONS:,} operations, {tokens:,} tokens, invariants and bytes after each"


def _change_one(cache: KVCache, alive: list[int], generator: random.Random) -> int:
    """Append to, shorten or end one sequence; a full pool ends one. Returns the tokens appended."""
    from pagedkv.errors import OutOfBlocksError

    seq_id = generator.choice(alive)
    length = cache.manager.seq_length(seq_id)
    action = generator.random()
    if action < 0.1:
        cache.truncate_sequence(seq_id, generator.randint(0, length))
        return 0
    if action < 0.8:
        count = generator.randint(1, 3 * BLOCK_SIZE)
        try:
            slots = cache.append_tokens(seq_id, count)
        except OutOfBlocksError:
            pass
        else:
            cache.pool.fill_tokens(seq_id, list(range(length, length + count)), slots)
            return count
    _end(cache, seq_id)
    alive.remove(seq_id)
    return 0


def _end(cache: KVCache, seq_id: int) -> None:
    slots = cache.manager.slot_mapping([seq_id])
    wrong = cache.pool.verify_tokens(seq_id, list(range(len(slots))), slots)
    require(wrong == 0, f"{wrong} of {len(slots)} tokens of sequence {seq_id} hold other bytes")
    cache.free_sequence(seq_id)


def base_case_item(device: str) -> str:
    """256 MiB, 8 concurrent, 100 completions, seed 42; the figures are those of an independent brute-force count."""
    from pagedkv.layout import OpaqueLayout
    from pagedkv.simulate import Load, PoolSpec, Simulation, base_case

    spec = PoolSpec(OpaqueLayout(512, 16), 32768)
    load = Load(base_case(100, 42), concurrency=8, max_seq_len=256)
    result = Simulation(spec, load, device=device, verify=True).run()
    require(not result.failures, "; ".join(result.failures))
    known = {"steps": 1778, "completed": 100, "peak_blocks": 81, "total_block_allocs": 1003, "peak_tokens": 1243}
    for name, value in known.items():
        require(result.figures[name] == value, f"{name} is {result.figures[name]}, should be {value}")
    return ", ".join(f"{value} {name}" for name, value in known.items())
