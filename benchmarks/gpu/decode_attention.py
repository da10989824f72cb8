"""Paged decode attention by graph replay, layers rotated: each call reads keys and values that no cache holds."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
import numpy.typing as npt

from benchmarks.gpu.device import EventPair, call, capture, enter_context
from benchmarks.report import Benchmark, Row, Settings
from pagedkv import DevicePool
from pagedkv.kv_layout import KVLayout

Halves = npt.NDArray[np.float16]

BLOCK_SIZE, HEAD_DIM = 16, 128
POOL_BYTES, TINY_BYTES = 17 << 30, 64 << 20


@dataclass(frozen=True)
class Shape:
    """A batch of equal sequences; heads: (query heads, KV heads). peer: FlashInfer 0.6.1 on an H200, microseconds."""

    sequences: int
    tokens: int
    heads: tuple[int, int]
    peer: float

    @property
    def kv_bytes(self) -> int:
        """Bytes of keys and values of one layer."""
        return self.sequences * self.tokens * self.heads[1] * HEAD_DIM * 2 * 2

    def __str__(self) -> str:
        return f"B={self.sequences} L={self.tokens}, {self.heads[0]}/{self.heads[1]} heads"


SHAPES = (
    Shape(64, 4096, (32, 8), 416),
    Shape(256, 2048, (32, 8), 760),
    Shape(8, 32768, (32, 8), 512),
    Shape(1, 131072, (32, 8), 263),
    Shape(64, 4096, (64, 8), 736),
    Shape(64, 4096, (32, 32), 998),
)


@dataclass(frozen=True)
class OnDevice:
    """Device memory as an array, for whoever knows the array interface."""

    address: int
    shape: tuple[int, ...]
    typestr: str

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        return {"shape": self.shape, "typestr": self.typestr, "data": (self.address, False), "version": 3}


def run(settings: Settings) -> list[Row]:
    enter_context()
    shapes = SHAPES if not settings.tiny else (Shape(2, 256, (4, 2), 0),)
    return [row for shape in shapes for row in measure(shape, settings)]


def measure(shape: Shape, settings: Settings, dtype: str = "float16") -> list[Row]:
    blocks = shape.sequences * shape.tokens // BLOCK_SIZE
    layers = max(2, min(32, settings.pick(POOL_BYTES, TINY_BYTES) // shape.kv_bytes))
    pool = DevicePool(KVLayout(layers, shape.heads[1], HEAD_DIM, dtype, BLOCK_SIZE), blocks, device="cuda:0")
    piece = fill(pool)
    random = np.random.default_rng(1)
    entries = random.permutation(blocks).astype(np.int32).reshape(shape.sequences, -1)
    table = uploaded(pool, entries)
    lengths = uploaded(pool, np.full(shape.sequences, shape.tokens, np.int32))
    size = (shape.sequences, shape.heads[0], HEAD_DIM)
    asked = [random.standard_normal(size).astype(np.float16) for _ in range(layers)]
    queries = [uploaded(pool, each) for each in asked]
    out = uploaded(pool, np.zeros(size, np.float16))

    def work() -> None:
        for layer in range(layers):
            pool.decode_attention(layer, queries[layer], lengths, out, table=table)

    work()
    pool.stream.synchronize()
    times = replays(pool, work, settings.pick(12, 2))
    check(pool, piece, entries[-1], asked[-1][-1], out)
    pool.close()
    each = [time / layers for time in times]
    rate = shape.kv_bytes / median(each) / 1e6
    peer = f"; FlashInfer 0.6.1 {shape.peer:g} us" if shape.peer else ""
    note = f"{layers} layers a replay, {min(each):.1f} .. {max(each):.1f} us, medians of {len(each)}{peer}"
    return [Row(str(shape), median(each), "us", note=note), Row(f"{shape}, KV read", rate, "TB/s")]


def replays(pool: DevicePool, work: object, count: int) -> Sequence[float]:
    """Microseconds of each replay, after one that warms up."""
    graph = capture(pool.stream, work)  # type: ignore[arg-type]
    pairs = [EventPair() for _ in range(count + 1)]
    for pair in pairs:
        pair.around(pool.stream, lambda: call("cuGraphLaunch", graph, pool.stream.handle))  # type: ignore[arg-type, attr-defined]
    return [pair.microseconds() for pair in pairs][1:]


def check(pool: DevicePool, piece: Halves, entries: npt.NDArray[np.int32], query: Halves, out: OnDevice) -> None:
    """Raise RuntimeError unless the last sequence's last head has the right result for the last layer."""
    layout = pool.layout
    head = query.shape[0] - 1
    found = np.zeros(out.shape, np.float16)
    pool.stream.synchronize()
    call("cuMemcpyDtoH", found.ctypes.data, out.address, found.nbytes)
    parts = []
    for part in ("k", "v"):
        view = layout.part_view(layout.num_layers - 1, part, pool.num_blocks)
        rows = (
            view.offset + entries.astype(np.int64)[:, None] * view.strides[0] + np.arange(BLOCK_SIZE) * view.strides[1]
        )
        first = rows.reshape(-1) + (layout.num_kv_heads - 1) * view.strides[2]
        parts.append(piece[(first[:, None] // 2 + np.arange(HEAD_DIM)) % piece.size].astype(np.float64))
    scores = parts[0] @ query[head].astype(np.float64) / HEAD_DIM**0.5
    weights = np.exp(scores - scores.max())
    expected = weights / weights.sum() @ parts[1]
    error = np.linalg.norm(found[-1, head] - expected) / np.linalg.norm(expected)
    if not error < 2**-9:
        raise RuntimeError(f"a result is {error:.1e} off: the times mean nothing")


def fill(pool: DevicePool) -> Halves:
    """Normal random numbers everywhere, one piece of them many times: zeros would be read faster. Returns the piece."""
    piece = np.random.default_rng(2).standard_normal(1 << 22).astype(np.float16)
    part = min(piece.nbytes, pool.nbytes)
    pool.backend.upload(pool._buffer, 0, piece.view(np.uint8)[:part], pool.stream)
    pool.stream.synchronize()
    for start in range(part, pool.nbytes, part):
        call("cuMemcpyDtoD", pool.base + start, pool.base, min(part, pool.nbytes - start))
    return piece


def uploaded(pool: DevicePool, array: np.ndarray) -> OnDevice:
    """The array's content on the device; its memory lives as long as the process."""
    buffer = pool.backend.allocate(array.nbytes)
    pool.backend.upload(buffer, 0, np.ascontiguousarray(array).reshape(-1).view(np.uint8), pool.stream)
    pool.stream.synchronize()
    _KEPT.append(buffer)
    return OnDevice(buffer.address, array.shape, array.dtype.str)


_KEPT: list[object] = []
BENCHMARK = Benchmark("decode-attention", "paged decode attention, one query token a sequence", run, in_process=False)
