"""Decode attention on a GPU against the definition in float64, on fresh inputs in poisoned memory.

Tolerances are of a head's result by its norm: float32 1e-5; 16-bit formats half the distance of neighboring numbers,
2^-8 and 2^-11, which is what rounding a result alone may cost.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from memory.attention_batches import AttentionBatch, Raw, Rules, Span, error_of
from memory.plans import plan
from pagedkv import DevicePool
from pagedkv.errors import InvalidArgumentError
from pagedkv.kernels.attention_shapes import DecodeShape, shares_for
from pagedkv.kernels.number_formats import to_float32
from pagedkv.kv_layout import KVLayout

pytestmark = pytest.mark.gpu

TOLERANCES = {"float32": 1e-5, "float16": 2.0**-11, "bfloat16": 2.0**-8}
HEAD_DIMS = [64, 128, 256]
FORMS = [(order, kv_layout) for order in ("block", "layer") for kv_layout in ("NHD", "HND")]


def spans_of(block_size: int) -> list[Span]:
    """The lengths at which something changes, a few with padding in front, and one of several pieces."""
    lengths = [0, 1, block_size, block_size + 1, 15, 16, 17, 3 * block_size - 1, 900]
    return [
        *map(Span, lengths),
        Span(40, 39),
        Span(70, 5),
        Span(64, 64),
        Span(30, 31),
        Span(2 * block_size, block_size),
    ]


class OnGpu:
    """A batch in tensors on the GPU: queries and results cut out of larger tensors, results poisoned."""

    def __init__(self, torch: Any, batch: AttentionBatch) -> None:
        self.torch, self.batch = torch, batch
        self.memory = torch.as_tensor(batch.memory, device="cuda")
        self.pool = DevicePool(batch.layout, batch.blocks, device="cuda:0", memory=self.memory)
        *front, heads, dim = batch.queries.shape
        self.queries = self._poisoned((*front, heads + 3, dim))[..., 1 : heads + 1, :]
        self.queries.copy_(self._tensor(batch.queries))
        self._whole = self._poisoned((*front, heads + 2, dim + 8))
        self.out = self._whole[..., 1:-1, 4 : 4 + batch.layout.value_dim]
        self.table, self.lengths, self.starts = (
            torch.as_tensor(array, device="cuda") for array in (batch.table, batch.lengths, batch.starts)
        )
        torch.cuda.synchronize()

    def run(self, **options: Any) -> Raw:
        """The result; the margins around it are untouched."""
        self.launch(**options)
        self.torch.cuda.synchronize()
        return self.result()

    def launch(self, **options: Any) -> None:
        self._whole.fill_(float("nan"))
        self.torch.cuda.synchronize()
        where = {} if "rows" in options else {"table": self.table}
        given = {"starts": self.starts, "scales": self.batch.factors, **self.batch.rules.options, **where, **options}
        self.pool.decode_attention(self.batch.layer, self.queries, self.lengths, self.out, **given)

    def result(self) -> Raw:
        margins = self._whole.clone()
        margins[..., 1:-1, 4 : 4 + self.batch.layout.value_dim] = float("nan")
        assert bool(margins.isnan().all()), "written beside the result"
        return self._raw(self.out.contiguous())

    def error(self, **options: Any) -> float:
        return error_of(self.run(**options), self.batch.dtype, self.batch.expected)

    def _poisoned(self, shape: tuple[int, ...]) -> Any:
        return self.torch.full(shape, float("nan"), dtype=getattr(self.torch, self.batch.dtype), device="cuda")

    def _tensor(self, raw: Raw) -> Any:
        if self.batch.dtype != "bfloat16":
            return self.torch.as_tensor(raw, device="cuda")
        return self.torch.as_tensor(raw.view(np.int16), device="cuda").view(self.torch.bfloat16)

    def _raw(self, tensor: Any) -> Raw:
        if self.batch.dtype != "bfloat16":
            return np.asarray(tensor.cpu().numpy())
        return np.asarray(tensor.view(self.torch.int16).cpu().numpy().view(np.uint16))


@pytest.mark.parametrize("head_dim", HEAD_DIMS)
@pytest.mark.parametrize("dtype", list(TOLERANCES))
@pytest.mark.parametrize("block_size", [8, 9, 16, 24, 32, 48, 100, 128, 256])
def test_block_sizes_in_every_layout(torch: Any, head_dim: int, dtype: str, block_size: int) -> None:
    for seed, (order, kv_layout) in enumerate(FORMS):
        layout = KVLayout(3, 2, head_dim, dtype, block_size, order, kv_layout)  # type: ignore[arg-type]
        on_gpu = OnGpu(torch, AttentionBatch(layout, spans_of(block_size), 4, seed=seed))
        assert on_gpu.error() < TOLERANCES[dtype], (order, kv_layout)


@pytest.mark.parametrize("head_dim", HEAD_DIMS)
@pytest.mark.parametrize("dtype", list(TOLERANCES))
@pytest.mark.parametrize("ratio", range(1, 17))
def test_ratios(torch: Any, head_dim: int, dtype: str, ratio: int) -> None:
    layout = KVLayout(2, 3, head_dim, dtype, 16)
    on_gpu = OnGpu(torch, AttentionBatch(layout, spans_of(16), ratio, seed=ratio))
    assert on_gpu.error() < TOLERANCES[dtype]


# Query tokens, what they see, and what becomes of scores: each with each other kind at least once.
RULES = [
    Rules(2),
    Rules(3, window=20),
    Rules(4, causal=False),
    Rules(4, causal=False, window=7, softcap=3.0),
    Rules(1, window=33),
    Rules(1, softcap=0.5),
    Rules(4, softcap=50.0),
]


@pytest.mark.parametrize("head_dim", HEAD_DIMS)
@pytest.mark.parametrize("dtype", list(TOLERANCES))
@pytest.mark.parametrize("rules", RULES, ids=str)
def test_query_tokens_windows_and_caps(torch: Any, head_dim: int, dtype: str, rules: Rules) -> None:
    """With every number of columns that a kernel is made for, in whole tiles and across blocks."""
    for ratio, block_size in ((1, 16), (2, 32), (4, 12), (7, 16), (8, 9), (16, 16), (15, 24)):
        layout = KVLayout(2, 2, head_dim, dtype, block_size, kv_layout="HND" if ratio % 2 else "NHD")
        on_gpu = OnGpu(torch, AttentionBatch(layout, spans_of(block_size), ratio, seed=ratio, rules=rules))
        assert on_gpu.error() < TOLERANCES[dtype], (ratio, block_size)


@pytest.mark.parametrize("dtype", list(TOLERANCES))
@pytest.mark.parametrize("head_dim", HEAD_DIMS)
def test_a_draft_with_nan_reaches_only_queries_that_see_it(torch: Any, head_dim: int, dtype: str) -> None:
    batch = AttentionBatch(KVLayout(1, 2, head_dim, dtype, 16), [Span(21)], 4, seed=1, rules=Rules(4))
    last = batch.pool_array("v")[batch.table[0, 1], 4]
    last.view(np.uint8)[:] = 0xFF
    on_gpu = OnGpu(torch, batch)
    found = on_gpu.run()
    assert np.isnan(_doubles(found[:, 3], dtype)).all()
    assert error_of(found[:, :3], dtype, batch.expected[:, :3]) < TOLERANCES[dtype]


@pytest.mark.parametrize("head_dim", HEAD_DIMS)
@pytest.mark.parametrize("stored", ["float8_e4m3fn", "float8_e5m2", "int8"])
@pytest.mark.parametrize(
    ("dtype", "scales", "ratio"), [("bfloat16", True, 5), ("float16", False, 8), ("float32", True, 1)]
)
def test_8_bit_layouts(torch: Any, head_dim: int, stored: str, dtype: str, scales: bool, ratio: int) -> None:
    for rules, block_size in ((Rules(), 12), (Rules(), 16), (Rules(3, window=30, softcap=9.0), 16), (Rules(4), 9)):
        if scales and block_size % 4:
            continue
        layout = KVLayout(2, 2, head_dim, stored, block_size, kv_layout="HND", scales=scales)
        batch = AttentionBatch(layout, spans_of(block_size), ratio, seed=ratio, dtype=dtype, rules=rules)
        assert OnGpu(torch, batch).error() < TOLERANCES[dtype], (rules, block_size)


@pytest.mark.parametrize("stored", ["float8_e4m3fn", "int8"])
@pytest.mark.parametrize("size", [1e-30, 1e-6, 1e6, 1e30])
def test_8_bit_layouts_of_very_small_and_very_large_scales(torch: Any, stored: str, size: float) -> None:
    """Beyond what float16 holds, and different by 2^20 from token to token."""
    layout = KVLayout(1, 2, 128, stored, 16, scales=True)
    batch = AttentionBatch(layout, [Span(200), Span(3)], 4, seed=3, dtype="bfloat16")
    plain = OnGpu(torch, batch)
    first = _doubles(plain.run(), "bfloat16")
    batch.pool_array("v_scale")[:] *= np.float32(size)
    scaled = OnGpu(torch, batch)
    found = _doubles(scaled.run(), "bfloat16") / np.float64(np.float32(size))
    assert np.linalg.norm(found - first) < 2.0**-7 * np.linalg.norm(first)
    few = batch.pool_array("v_scale")
    few[:, ::3] *= np.float32(2.0**20)
    k, v = (batch.pool_array(part) for part in ("k", "v"))
    numbers = [_doubles(raw, stored) for raw in (k, v)]
    wide = _doubles(OnGpu(torch, batch).run(), "bfloat16")
    queries = _doubles(batch.queries, "bfloat16")
    for i, span in enumerate(batch.spans):
        at = np.arange(span.length)
        place = (batch.table[i][at // 16], at % 16)
        keys = numbers[0][place] * batch.pool_array("k_scale")[place].astype(np.float64)
        values = numbers[1][place] * few[place].astype(np.float64)
        for head in range(8):
            scores = keys[:, head // 4] @ queries[i, head] / 128**0.5
            weights = np.exp(scores - scores.max())
            wanted = weights / weights.sum() @ values[:, head // 4]
            assert np.linalg.norm(wide[i, head] - wanted) < 2.0**-7 * np.linalg.norm(wanted)


@pytest.mark.parametrize("size", [2.0**-110, 2.0**-20, 2.0**40, 2.0**120])
def test_bfloat16_queries_of_any_size_over_8_bits(torch: Any, size: float) -> None:
    """The kernel computes with float16; the softmax's scale brings scores back."""
    batch = AttentionBatch(KVLayout(1, 2, 64, "int8", 16), [Span(100)], 4, seed=3, dtype="bfloat16")
    on_gpu = OnGpu(torch, batch)
    first = _doubles(on_gpu.run(), "bfloat16")
    on_gpu.queries.mul_(size)
    torch.cuda.synchronize()
    found = _doubles(on_gpu.run(softmax_scale=1 / (8 * size)), "bfloat16")
    if size > 2.0**-100:  # where float32 holds a score's scale
        assert np.linalg.norm(found - first) < 2.0**-7 * np.linalg.norm(first)
    else:
        assert np.isfinite(found).all()


@pytest.mark.parametrize("dtype", list(TOLERANCES))
@pytest.mark.parametrize("ratio", [1, 4, 16])
def test_long_sequences_in_shares_give_the_same_bits_every_time(torch: Any, dtype: str, ratio: int) -> None:
    layout = KVLayout(1, 2, 128, dtype, 16)
    rules = Rules(2) if ratio == 4 else Rules()
    spans = [Span(20_000), Span(3), Span(7_777, 1_003), Span(0), *[Span(n) for n in range(60, 70)], Span(3_000)]
    batch = AttentionBatch(layout, spans, ratio, seed=ratio, rules=rules)
    slots = torch.cuda.get_device_properties(0).multi_processor_count
    shape = DecodeShape(128, ratio, 16, dtype, dtype, False, rules.tokens)
    assert shares_for(shape, 2, len(spans), batch.width * 16, slots).most > 8
    on_gpu = OnGpu(torch, batch)
    first = on_gpu.run()
    assert error_of(first, dtype, batch.expected) < TOLERANCES[dtype]
    for _ in range(20):
        assert np.array_equal(on_gpu.run(), first)


@pytest.mark.parametrize("count", [127, 129, 700])
def test_many_sequences_of_any_length(torch: Any, count: int) -> None:
    """Fewer, and more, than a CTA has threads to look at lengths."""
    lengths = np.random.default_rng(count).integers(0, 200, count).tolist()
    lengths[count // 2] = 5_000
    batch = AttentionBatch(KVLayout(1, 1, 64, "bfloat16", 16), [Span(n) for n in lengths], 4, seed=count)
    on_gpu = OnGpu(torch, batch)
    assert on_gpu.error() < TOLERANCES["bfloat16"]


def test_two_streams_at_a_time(torch: Any) -> None:
    """Each has its own place for pieces: what overlaps does not mix."""
    layout = KVLayout(1, 2, 128, "float16", 16)
    both = [OnGpu(torch, AttentionBatch(layout, [Span(30_000)], 4, seed=seed)) for seed in (1, 2)]
    streams = [torch.cuda.Stream() for _ in both]
    for one in both:
        one._whole.fill_(float("nan"))
    torch.cuda.synchronize()
    for _ in range(50):
        for one, stream in zip(both, streams, strict=True):
            one.pool.decode_attention(
                one.batch.layer, one.queries, one.lengths, one.out, table=one.table, stream=stream.cuda_stream
            )
    torch.cuda.synchronize()
    for one in both:
        assert error_of(one.result(), "float16", one.batch.expected) < TOLERANCES["float16"]


def test_lengths_beyond_the_table_end_with_it(torch: Any) -> None:
    batch = AttentionBatch(KVLayout(1, 2, 128, "bfloat16", 16), [Span(160), Span(160), Span(33)], 4, seed=3, spare=0)
    on_gpu = OnGpu(torch, batch)
    on_gpu.lengths[:2] = torch.tensor([161, 2**31 - 1])
    assert on_gpu.error() < TOLERANCES["bfloat16"]
    on_gpu.lengths.fill_(-1)
    assert not on_gpu.run().any()


def test_blocks_outside_the_pool_are_left_out(torch: Any) -> None:
    """A hole of one block: the result is that of the sequence without its tokens."""
    for dtype in TOLERANCES:
        for block_size in (8, 16):
            layout = KVLayout(1, 2, 64, dtype, block_size)
            batch = AttentionBatch(layout, [Span(5 * block_size)], 4, seed=4)
            on_gpu = OnGpu(torch, batch)
            short = OnGpu(torch, batch)
            short.table[0, 2:4] = short.table[0, 3:5].clone()
            short.lengths.fill_(4 * block_size)
            wanted = short.run()
            for hole in (-1, batch.blocks, 2**31 - 1, -(2**31)):
                on_gpu.table[0, 2] = hole
                found = on_gpu.run()
                assert error_of(found, dtype, _doubles(wanted, dtype)) < 2 * TOLERANCES[dtype], (dtype, hole)
            on_gpu.table.fill_(-1)
            assert not on_gpu.run().any()


def test_rows_of_the_pools_tables(torch: Any) -> None:
    """Rows in any order, one outside the tables, and tables that have grown since."""
    batch = AttentionBatch(KVLayout(2, 2, 64, "float16", 8), [Span(9), Span(60), Span(1)], 2, seed=5, spare=0)
    on_gpu = OnGpu(torch, batch)
    lines, rows = [7, 2, 63], torch.tensor([7, 2, 63], dtype=torch.int32, device="cuda")
    needed = [-(-span.length // 8) for span in batch.spans]
    updates = [
        (lines[i], column, int(batch.table[i, column])) for i, count in enumerate(needed) for column in range(count)
    ]
    on_gpu.pool.apply(plan(1, updates=updates))
    assert on_gpu.error(rows=rows) < TOLERANCES["float16"]
    on_gpu.pool.apply(plan(2, updates=[(200, 8, 0)]))
    assert on_gpu.error(rows=rows) < TOLERANCES["float16"]
    for outside in (-1, on_gpu.pool.tables.rows, 2**31 - 1):
        rows[1] = outside
        found = on_gpu.run(rows=rows)
        assert not found[1].any()
        assert found[0].any()
        assert found[2].any()


@pytest.mark.parametrize("ratio", [4, 2])
def test_a_graph_sees_lengths_and_blocks_of_the_day(torch: Any, ratio: int) -> None:
    """Captured on a stream that has seen no attention yet; ratio 2 of an int8 layout is a kernel not yet loaded."""
    dtype = "bfloat16" if ratio == 4 else "int8"
    layout = KVLayout(2, 2, 64, dtype, 16)
    batch = AttentionBatch(layout, [Span(3_000), Span(700), Span(17)], ratio, seed=6, dtype="bfloat16")
    other = AttentionBatch(layout, [Span(5), Span(2_900, 100), Span(0)], ratio, seed=7, dtype="bfloat16", spare=6)
    on_gpu, stream = OnGpu(torch, batch), torch.cuda.Stream()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        on_gpu.pool.decode_attention(
            batch.layer,
            on_gpu.queries,
            on_gpu.lengths,
            on_gpu.out,
            table=on_gpu.table,
            starts=on_gpu.starts,
            scales=batch.factors,
            stream=stream.cuda_stream,
        )
    for _ in range(2):
        on_gpu._whole.fill_(float("nan"))
        graph.replay()
        torch.cuda.synchronize()
        assert error_of(on_gpu.result(), "bfloat16", batch.expected) < TOLERANCES["bfloat16"]
    # The other batch's pool in place of this one's, as far as it goes: its blocks are fewer.
    assert other.blocks <= batch.blocks
    assert other.table.shape[1] <= batch.table.shape[1]
    moved = other.memory.reshape(other.blocks, -1)
    layer_bytes = layout.layer_bytes
    target = on_gpu.memory.view(batch.blocks, -1)[: other.blocks]
    source = torch.as_tensor(moved[:, other.layer * layer_bytes : (other.layer + 1) * layer_bytes], device="cuda")
    target[:, batch.layer * layer_bytes : (batch.layer + 1) * layer_bytes] = source
    on_gpu.table[:, : other.table.shape[1]] = torch.as_tensor(other.table, device="cuda")
    on_gpu.table.clamp_(max=other.blocks - 1)
    on_gpu.lengths.copy_(torch.as_tensor(other.lengths))
    on_gpu.starts.copy_(torch.as_tensor(other.starts))
    on_gpu.queries.copy_(on_gpu._tensor(other.queries))
    on_gpu._whole.fill_(float("nan"))
    graph.replay()
    torch.cuda.synchronize()
    assert error_of(on_gpu.result(), "bfloat16", other.expected) < TOLERANCES["bfloat16"]


def test_blocks_beyond_4_gib(torch: Any) -> None:
    layout = KVLayout(32, 8, 128, "bfloat16", 16)
    batch = AttentionBatch(layout, [Span(50), Span(31)], 4, seed=8)
    blocks = (9 << 30) // layout.block_bytes
    memory = torch.full((blocks * layout.block_bytes,), 0xFF, dtype=torch.uint8, device="cuda")
    places = (
        np.arange(batch.blocks) * (blocks // batch.blocks) + blocks - 1 - (batch.blocks - 1) * (blocks // batch.blocks)
    )
    for block, place in enumerate(places.tolist()):
        data = batch.memory.reshape(batch.blocks, -1)[block]
        memory[place * layout.block_bytes : (place + 1) * layout.block_bytes] = torch.as_tensor(data, device="cuda")
    on_gpu = OnGpu(torch, batch)
    inside = (batch.table >= 0) & (batch.table < batch.blocks)
    table = np.where(inside, places[np.where(inside, batch.table, 0)], batch.table).astype(np.int32)
    on_gpu.table.copy_(torch.as_tensor(table))
    on_gpu.pool = DevicePool(layout, blocks, device="cuda:0", memory=memory)
    assert on_gpu.error() < TOLERANCES["bfloat16"]
    on_gpu.pool.close()


def test_shapes_without_a_kernel_are_refused(torch: Any) -> None:
    cases = [(KVLayout(1, 1, 96, "float16", 16), 1), (KVLayout(1, 1, 128, "float16", 16), 20)]
    cases.append((KVLayout(1, 1, 128, "float16", 16, v_head_dim=64), 1))
    cases.append((KVLayout(1, 1, 64, "float16", 16), 1))
    for layout, ratio in cases:
        rules = Rules(5) if (layout.head_dim, ratio) == (64, 1) else Rules()
        on_gpu = OnGpu(torch, AttentionBatch(layout, [Span(4)], ratio, seed=9, rules=rules))
        with pytest.raises(InvalidArgumentError, match=r"head size 64, 128, 256.* 1 to 16 query heads"):
            on_gpu.launch()
        torch.cuda.synchronize()
        assert bool(on_gpu.out.isnan().all())
        assert on_gpu.pool.failure is None


def test_tensors_of_another_device_are_refused(torch: Any) -> None:
    on_gpu = OnGpu(torch, AttentionBatch(KVLayout(1, 1, 64, "float16", 16), [Span(4)], 1, seed=10))
    for name in ("queries", "lengths", "out", "table", "starts"):
        kept = getattr(on_gpu, name)
        setattr(on_gpu, name, kept.cpu())
        with pytest.raises(InvalidArgumentError, match=name):
            on_gpu.launch()
        setattr(on_gpu, name, kept)
    assert on_gpu.error() < TOLERANCES["float16"]


def _doubles(raw: Raw, dtype: str) -> Any:
    return to_float32(raw, dtype).astype(np.float64)
