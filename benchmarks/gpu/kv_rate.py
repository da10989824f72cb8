"""write_kv and gather_kv as a share of a device-to-device copy of the same bytes, and against FlashInfer's append.

bfloat16, 8 KV heads of 128, blocks of 16 scattered over a block-major pool of 32 layers. Everything by graph replay,
interleaved; each call of a graph has keys, values, slots and a layer of its own, beyond what the L2 holds. What was
written and gathered is compared before anything is timed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median

import numpy as np

from benchmarks.gpu.copy_rate import MIB
from benchmarks.gpu.device import EventPair, call, capture, enter_context
from benchmarks.gpu.flashinfer_append import flashinfer_append
from benchmarks.gpu.scattered import device_copy
from benchmarks.report import Benchmark, Row, Settings, Target
from pagedkv import DevicePool, KVLayout, OpaqueLayout

LAYOUT = KVLayout(32, 8, 128, "bfloat16", 16)
TOKEN_BYTES = 4096  # K and V of one layer
SHARES = {16_384: 85.0, 65_536: 95.0, 131_072: 95.0}
AGAINST_FLASHINFER = (64, 256, 1024, 4096, 16_384)
ROTATED = 192 * MIB
DECODE_TOKENS = 256  # up to here a step has one token a sequence, each in a block of its own


@dataclass(frozen=True)
class OnDevice:
    """Device memory as an array: uint16 is taken for bfloat16."""

    address: int
    shape: tuple[int, ...]
    typestr: str = "<u2"

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        return {"shape": self.shape, "typestr": self.typestr, "data": (self.address, False), "version": 3}


@dataclass(frozen=True)
class Step:
    """One call's arguments."""

    layer: int
    tokens: tuple[OnDevice, OnDevice]
    out: tuple[OnDevice, OnDevice]
    slots: OnDevice
    blocks: np.ndarray  # int32, in the order of the tokens

    @property
    def nbytes(self) -> int:
        return self.slots.shape[0] * TOKEN_BYTES


class Arena:
    """The pool, and two pieces of plain memory: where keys and values come from and where they go."""

    def __init__(self, most_tokens: int) -> None:
        enter_context()
        self.pool = DevicePool(LAYOUT, most_tokens // 16, device="cuda:0")
        size = max(3 * most_tokens * TOKEN_BYTES, ROTATED)
        self.plain = [DevicePool(OpaqueLayout(TOKEN_BYTES, 16), size // 65536 + 1, device="cuda:0") for _ in range(2)]
        self._buffers: list[object] = []
        self.poison()

    def poison(self) -> None:
        """Random bytes everywhere, of another kind in each piece."""
        for tag, pool in enumerate((*self.plain, self.pool)):
            pool.fill_blocks(range(pool.num_blocks), np.arange(pool.num_blocks) + (tag << 40))
            pool.stream.synchronize()

    def steps(self, tokens: int) -> list[Step]:
        """As many as the rotation needs; no two share a slot of a layer."""
        count = max(3, -(-ROTATED // (tokens * TOKEN_BYTES)))
        random = np.random.default_rng(tokens)
        a_block = 1 if tokens <= DECODE_TOKENS else 16
        used = tokens // a_block
        orders = [random.permutation(self.pool.num_blocks).astype(np.int32) for _ in range(32)]
        found = []
        for index in range(count):
            layer, turn = index % 32, index // 32 * used
            blocks = orders[layer][turn : turn + used]
            assert len(blocks) == used, "the pool is too small for that many steps"
            offsets = random.integers(0, 16, used) if a_block == 1 else np.tile(np.arange(16), used)
            slots = np.repeat(blocks.astype(np.int64), a_block) * 16 + offsets
            places = [self._pair(pool.base + index * tokens * TOKEN_BYTES, tokens) for pool in self.plain]
            found.append(Step(layer, places[0], places[1], self._upload(slots), blocks))
        return found

    def close(self) -> None:
        for buffer in self._buffers:
            self.pool.backend.free(buffer)  # type: ignore[arg-type]
        for pool in (self.pool, *self.plain):
            pool.close()

    def _pair(self, address: int, tokens: int) -> tuple[OnDevice, OnDevice]:
        shape = (tokens, 8, 128)
        return OnDevice(address, shape), OnDevice(address + tokens * TOKEN_BYTES // 2, shape)

    def _upload(self, slots: np.ndarray) -> OnDevice:
        buffer = self.pool.backend.allocate(slots.nbytes)
        self._buffers.append(buffer)
        self.pool.backend.upload(buffer, 0, slots.view(np.uint8), self.pool.stream)
        self.pool.stream.synchronize()
        return OnDevice(buffer.address, slots.shape, "<i8")


def run(settings: Settings) -> list[Row]:
    sizes = settings.pick(sorted({*SHARES, *AGAINST_FLASHINFER}), [64, 1024])
    arena = Arena(settings.pick(131_072, 32_768))
    rows = [row for tokens in sizes for row in measure(arena, tokens, settings.pick(15, 2))]
    arena.close()
    return rows


def measure(arena: Arena, tokens: int, replays: int) -> list[Row]:
    pool, steps = arena.pool, arena.steps(tokens)
    stream = pool.stream
    handle: int = stream.handle  # type: ignore[attr-defined]

    def write() -> None:
        for step in steps:
            pool.write_kv(step.layer, *step.tokens, step.slots)

    def gather() -> None:
        for step in steps:
            pool.gather_kv(step.layer, step.slots, *step.out)

    def copy() -> None:
        for step in steps:
            device_copy(step.out[0].address, step.tokens[0].address, step.nbytes, handle)

    def two_copies() -> None:
        for step in steps:
            for out, tokens in zip(step.out, step.tokens, strict=True):
                device_copy(out.address, tokens.address, step.nbytes // 2, handle)

    arena.poison()
    write()
    gather()
    stream.synchronize()
    check(arena, steps)
    works: dict[str, Callable[[], object]] = {}
    for work in (write, gather, copy, two_copies):
        graph = capture(stream, work)  # type: ignore[arg-type]
        works[work.__name__] = partial(call, "cuGraphLaunch", graph, handle)
    peer = flashinfer_append(steps, handle) if tokens in AGAINST_FLASHINFER else None
    if peer is not None:
        works["FlashInfer"] = peer
    times = interleaved(stream, works, replays)
    per_call = {name: [time / len(steps) for time in values] for name, values in times.items()}
    return [row for name in ("write", "gather") for row in rows_of(name, tokens, per_call, len(steps))]


def interleaved(stream: object, works: dict[str, Callable[[], object]], replays: int) -> dict[str, list[float]]:
    """Microseconds of each replay, three to warm up left out; who comes first changes."""
    pairs: dict[str, list[EventPair]] = {name: [] for name in works}
    for turn in range(replays + 3):
        names = list(works)
        for name in names if turn % 2 else names[::-1]:
            pairs[name].append(EventPair())
            pairs[name][-1].around(stream, works[name])  # type: ignore[arg-type]
    return {name: [pair.microseconds() for pair in found][3:] for name, found in pairs.items()}


def rows_of(work: str, tokens: int, per_call: dict[str, list[float]], steps: int) -> list[Row]:
    # Above 256 MiB the driver's copy is slower in one piece than K's and V's are; the better one counts.
    ours, plain = per_call[work], min(per_call["copy"], per_call["two_copies"], key=median)
    share, name = 100 * median(plain) / median(ours), f"{work}_kv"
    one, two = spread(per_call["copy"]), spread(per_call["two_copies"])
    note = f"{steps} calls a replay; {spread(ours)}, one copy {one}, K and V {two}; medians of {len(ours)}"
    target = Target(SHARES[tokens], at_least=True) if tokens in SHARES else None
    rows = [
        Row(f"{name}, {tokens} tokens, of a device copy", share, "%", target, note=note),
        Row(f"{name}, {tokens} tokens, read and written", 2 * tokens * TOKEN_BYTES / median(ours) / 1e3, "GB/s"),
    ]
    if "FlashInfer" in per_call:
        theirs = per_call["FlashInfer"]
        case, note = f"{name}, {tokens} tokens, of FlashInfer's append", f"theirs {spread(theirs)}"
        target = Target(1.0) if work == "write" else None
        rows.append(Row(case, median(ours) / median(theirs), "x", target, note=note))
    return rows


def spread(times: list[float]) -> str:
    return f"{median(times):.2f} us ({min(times):.2f} .. {max(times):.2f})"


def check(arena: Arena, steps: list[Step]) -> None:
    """What was gathered last is what was written; some tokens of every step are where the layout says."""
    random = np.random.default_rng(1)
    for step in (steps[0], steps[-1]):
        source, out = (download(pair[0].address, step.nbytes) for pair in (step.tokens, step.out))
        if not np.array_equal(source, out):
            raise RuntimeError("what was gathered is not what was written: the times mean nothing")
        slots = download(step.slots.address, 8 * step.slots.shape[0]).view(np.int64)
        for token in random.integers(0, len(slots), 20).tolist():
            block, offset = divmod(int(slots[token]), 16)
            for part, tensor in zip("kv", step.tokens, strict=True):
                found = download(arena.pool.token_ptr(block, offset, step.layer, part), TOKEN_BYTES // 2)
                if not np.array_equal(found, download(tensor.address + token * TOKEN_BYTES // 2, TOKEN_BYTES // 2)):
                    raise RuntimeError(f"token {token} is not in its slot: the times mean nothing")


def download(address: int, nbytes: int) -> np.ndarray:
    found = np.empty(nbytes, np.uint8)
    call("cuMemcpyDtoH", found.ctypes.data, address, nbytes)
    return found


BENCHMARK = Benchmark("kv-rate", "keys and values written and gathered, against a device copy", run, in_process=False)
