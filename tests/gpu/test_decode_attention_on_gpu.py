"""Decode attention on a GPU against the definition in float64, on fresh inputs in poisoned memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from memory.attention_batches import AttentionBatch, Rules, Span, error_of
from memory.plans import plan
from pagedkv import DevicePool
from pagedkv.errors import InvalidArgumentError
from pagedkv.kernels.attention_shapes import DecodeShape, shares_for
from pagedkv.kv_layout import KVLayout

from .attention_on_gpu import HEAD_DIMS, TOLERANCES, OnGpu, doubles, spans_of

pytestmark = pytest.mark.gpu

FORMS = [(order, kv_layout) for order in ("block", "layer") for kv_layout in ("NHD", "HND")]


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


@pytest.mark.parametrize("dtype", list(TOLERANCES))
@pytest.mark.parametrize("ratio", [1, 4, 16])
def test_long_sequences_in_shares_give_the_same_bits_every_time(torch: Any, dtype: str, ratio: int) -> None:
    layout = KVLayout(1, 2, 128, dtype, 16)
    rules = Rules(2) if ratio == 4 else Rules()
    spans = [Span(20_000), Span(3), Span(7_777, 1_003), Span(0), *[Span(n) for n in range(60, 70)], Span(3_000)]
    batch = AttentionBatch(layout, spans, ratio, seed=ratio, rules=rules)
    slots = torch.cuda.get_device_properties(0).multi_processor_count
    shape = DecodeShape(128, ratio, 16, dtype, dtype, False, rules.tokens)
    assert shares_for(shape, 2, len(spans), batch.width * 16, slots) > 8
    on_gpu = OnGpu(torch, batch)
    first = on_gpu.run()
    assert error_of(first, dtype, batch.expected) < TOLERANCES[dtype]
    for _ in range(20):
        assert np.array_equal(on_gpu.run(), first)


@pytest.mark.parametrize(("head_dim", "ratio", "tokens"), [(128, 1, 1), (128, 16, 1), (64, 4, 1), (128, 16, 2)])
def test_pieces_of_more_tiles_than_a_warp_knows_ids_of(torch: Any, head_dim: int, ratio: int, tokens: int) -> None:
    """Without masks, what is there a hundred times has the result of what is there once."""
    layout = KVLayout(1, 160, head_dim, "bfloat16", 16)  # so many heads that each CTA has a whole sequence
    rules = Rules(tokens, causal=False)
    batch = AttentionBatch(layout, [Span(128)], ratio, seed=ratio, spare=800 - 8, rules=rules)
    on_gpu = OnGpu(torch, batch)
    blocks = np.random.default_rng(ratio).permutation(np.tile(batch.table[0, :8], 100))
    on_gpu.table[0] = torch.as_tensor(blocks, device="cuda")
    on_gpu.lengths.fill_(800 * 16)
    assert on_gpu.error() < TOLERANCES["bfloat16"]


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
                assert error_of(found, dtype, doubles(wanted, dtype)) < 2 * TOLERANCES[dtype], (dtype, hole)
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
