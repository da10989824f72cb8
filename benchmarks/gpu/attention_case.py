"""A batch for decode attention on a filled pool: its work for every layer, its bytes, and a check of the result."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.gpu.device import EventPair, call, capture
from pagedkv import DevicePool
from pagedkv.kernels.number_formats import to_float32
from pagedkv.kv_layout import KVLayout, token_and_head_axes

Raw = npt.NDArray[Any]
Doubles = npt.NDArray[np.float64]
BF16 = "bfloat16"


@dataclass(frozen=True)
class Case:
    """Sequences of these lengths; heads: (query heads, KV heads); tokens: query tokens a sequence."""

    name: str
    lengths: tuple[int, ...]
    heads: tuple[int, int] = (32, 8)
    head_dim: int = 128
    stored: str = BF16
    scales: bool = False
    block_size: int = 16
    order: str = "block"
    kv_layout: str = "NHD"
    tokens: int = 1
    window: int | None = None
    softcap: float | None = None
    spare_columns: int = 0
    goal: float | None = None  # percent of the ceiling
    pool_bytes: int = 17 << 30

    def layout(self, layers: int) -> KVLayout:
        return KVLayout(
            layers,
            self.heads[1],
            self.head_dim,
            self.stored,
            self.block_size,
            self.order,  # type: ignore[arg-type]
            self.kv_layout,  # type: ignore[arg-type]
            scales=self.scales,
        )

    @property
    def needed(self) -> list[int]:
        """Blocks of each sequence."""
        return [-(-length // self.block_size) for length in self.lengths]

    @property
    def read_tokens(self) -> int:
        """Tokens that some query sees."""
        reach = None if self.window is None else self.window + self.tokens - 1
        return sum(length if reach is None else min(length, reach) for length in self.lengths)

    @property
    def kv_bytes(self) -> int:
        """Bytes of keys, values and scales of one layer that are seen."""
        return self.read_tokens * self.layout(1).token_bytes


@dataclass(frozen=True)
class OnDevice:
    """Device memory as an array, for whoever knows the array interface."""

    address: int
    shape: tuple[int, ...]
    typestr: str

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        return {"shape": self.shape, "typestr": self.typestr, "data": (self.address, False), "version": 3}


class Prepared:
    """A case in a pool of its own: blocks in random order, every byte of the pool random."""

    def __init__(self, case: Case, *, tiny: bool = False) -> None:
        self.case = case
        blocks = sum(case.needed)
        per_layer = blocks * case.layout(1).block_bytes
        self.layers = max(2, min(32, (64 << 20 if tiny else case.pool_bytes) // per_layer))
        self.layout = case.layout(self.layers)
        self.pool = DevicePool(self.layout, blocks, device="cuda:0")
        self.kept: list[object] = []
        self._random = np.random.default_rng(1)
        self._piece = _fill(self.pool, case.stored)
        free = iter(self._random.permutation(blocks).tolist())
        self.entries = np.zeros((len(case.lengths), max(case.needed) + case.spare_columns), np.int32)
        for row, count in zip(self.entries, case.needed, strict=True):
            row[:count] = [next(free) for _ in range(count)]
        self.table = self.upload(self.entries)
        self.lengths = self.upload(np.array(case.lengths, np.int32))
        shape = (len(case.lengths), case.tokens, case.heads[0], case.head_dim)
        self._asked = [_bf16(self._random.standard_normal(shape, np.float32)) for _ in range(self.layers)]
        self.queries = [self.upload(each) for each in self._asked]
        self.out = self.upload(np.full(shape, 0x7FFF, np.uint16))

    def work(self) -> None:
        """Attention of every layer, put on the pool's stream."""
        for layer in range(self.layers):
            self.attend(layer)

    def attend(self, layer: int) -> None:
        """Attention of one layer."""
        case = self.case
        options = {"table": self.table, "window": case.window, "softcap": case.softcap}
        self.pool.decode_attention(layer, self.queries[layer], self.lengths, self.out, **options)  # type: ignore[arg-type]

    def replays(self, work: Callable[[], object], count: int) -> Sequence[float]:
        """Microseconds a layer of each replay of the work as a graph, after one that warms up."""
        work()
        self.pool.stream.synchronize()
        graph = capture(self.pool.stream, work)  # type: ignore[arg-type]
        pairs = [EventPair() for _ in range(count + 1)]
        for pair in pairs:
            pair.around(self.pool.stream, lambda: call("cuGraphLaunch", graph, self.pool.stream.handle))  # type: ignore[arg-type, attr-defined]
        return [pair.microseconds() / self.layers for pair in pairs][1:]

    def result(self) -> Raw:
        """What lies in `out` once the stream has passed."""
        found = np.zeros(self.out.shape, np.uint16)
        self.pool.stream.synchronize()
        call("cuMemcpyDtoH", found.ctypes.data, self.out.address, found.nbytes)
        return found

    def check(self, found: Raw, layer: int = -1) -> None:
        """Raise RuntimeError unless results of a layer are right for the last head of the longest sequence."""
        case, layer = self.case, layer % self.layers
        i, head = int(np.argmax(case.lengths)), case.heads[0] - 1
        length = case.lengths[i]
        k, v = self._stored(i, layer, case.heads[1] - 1)
        for j in range(case.tokens):
            own = length - case.tokens + 1 + j
            first = 0 if case.window is None else max(0, own - case.window)
            query = to_float32(self._asked[layer][i, j, head], BF16).astype(np.float64)
            scores = k[first:own] @ query / case.head_dim**0.5
            if case.softcap is not None:
                scores = case.softcap * np.tanh(scores / case.softcap)
            weights = np.exp(scores - scores.max())
            expected = weights / weights.sum() @ v[first:own]
            got = to_float32(found.reshape(self.out.shape)[i, j, head], BF16).astype(np.float64)
            error = float(np.linalg.norm(got - expected) / np.linalg.norm(expected))
            if not error < 2**-7:
                raise RuntimeError(f"a result is {error:.1e} off: the times mean nothing")

    def upload(self, array: Raw) -> OnDevice:
        """The array's content on the device; its memory lives as long as this object."""
        buffer = self.pool.backend.allocate(array.nbytes)
        self.pool.backend.upload(buffer, 0, np.ascontiguousarray(array).reshape(-1).view(np.uint8), self.pool.stream)
        self.pool.stream.synchronize()
        self.kept.append(buffer)
        return OnDevice(buffer.address, array.shape, array.dtype.str)

    def close(self) -> None:
        self.pool.stream.synchronize()
        for buffer in self.kept:
            self.pool.backend.free(buffer)  # type: ignore[arg-type]
        self.pool.close()

    def _stored(self, i: int, layer: int, head: int) -> tuple[Doubles, Doubles]:
        """K and V of a sequence's tokens, as the device has them."""
        positions = np.arange(self.case.lengths[i], dtype=np.int64)
        blocks = self.entries[i][positions // self.case.block_size].astype(np.int64)
        places = positions % self.case.block_size
        token, of_head = token_and_head_axes(self.layout)
        found = []
        for part in ("k", "v"):
            view = self.layout.part_view(layer, part, self.pool.num_blocks)
            steps = view.strides
            at = view.offset + blocks * steps[0] + places * steps[token] + head * steps[of_head]
            row = self._bytes(at, self.case.head_dim * self.layout.element.itemsize)
            numbers = to_float32(row.view(self.layout.element.storage), self.case.stored).astype(np.float64)
            if self.case.scales:
                view = self.layout.part_view(layer, f"{part}_scale", self.pool.num_blocks)
                steps = view.strides
                at = view.offset + blocks * steps[0] + places * steps[token] + head * steps[of_head]
                numbers *= self._bytes(at, 4).view(np.float32)
            found.append(numbers)
        return found[0], found[1]

    def _bytes(self, starts: npt.NDArray[np.int64], count: int) -> Raw:
        return np.ascontiguousarray(self._piece[(starts[:, None] + np.arange(count)) % self._piece.size])


def _fill(pool: DevicePool, stored: str) -> Raw:
    """Random numbers everywhere, one piece of them many times: zeros would be read faster. Returns the piece's bytes.

    8-bit codes are those of 1 to 2 with either sign, which as the bytes of a float32 scale are a number below 1.
    """
    random = np.random.default_rng(2)
    if stored == BF16:
        piece = _bf16(random.standard_normal(1 << 22, np.float32)).view(np.uint8)
    else:
        piece = random.integers(0x38, 0x40, 1 << 23, np.uint8) | (random.integers(0, 2, 1 << 23, np.uint8) << 7)
    part = min(piece.nbytes, pool.nbytes)
    pool.backend.upload(pool._buffer, 0, piece[:part], pool.stream)
    pool.stream.synchronize()
    for start in range(part, pool.nbytes, part):
        call("cuMemcpyDtoD", pool.base + start, pool.base, min(part, pool.nbytes - start))
    return piece


def _bf16(numbers: npt.NDArray[np.float32]) -> Raw:
    return (numbers.view(np.uint32) >> 16).astype(np.uint16)
