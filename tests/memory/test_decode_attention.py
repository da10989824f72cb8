"""Decode attention on the host against the definition: random shapes and lengths in poisoned memory, and bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedkv import BackendError, DevicePool, InvalidArgumentError, KVCache, KVCacheManager, OpaqueLayout
from pagedkv.backends.host import HostBackend
from pagedkv.dtypes import COMPUTE_DTYPES, DTYPES
from pagedkv.kv_layout import KVLayout

from .attention_batches import AttentionBatch, Raw, Rules, Span, error_of
from .plans import plan

# Of a head's result by its norm. The reference computes in float64: what is left is the rounding of a result.
TOLERANCES = {"float32": 1e-6, "float16": 2.0**-11, "bfloat16": 2.0**-8}


class OnHost:
    """A batch on the host: queries and results cut out of larger arrays, results poisoned."""

    def __init__(self, batch: AttentionBatch, device: HostBackend | str = "host") -> None:
        self.batch = batch
        self.pool = DevicePool(batch.layout, batch.blocks, device=device, memory=batch.memory)
        *front, heads, dim = batch.queries.shape
        count = len(batch.spans)
        self.queries = _poisoned((*front, heads + 3, dim), batch)[..., 1 : heads + 1, :]
        self.queries[:] = batch.queries
        self.whole = _poisoned((*front, heads + 2, batch.layout.value_dim + 4), batch)
        self.out = self.whole[..., 1:-1, 2:-2]
        wide = np.full((count, 2 * batch.width + 1), -1, np.int32)
        self.table = wide[:, : batch.width]
        self.table[:] = batch.table

    def run(self, **options: Any) -> Raw:
        batch = self.batch
        where = {} if "rows" in options else {"table": self.table}
        given = {"starts": batch.starts, "scales": batch.factors, **batch.rules.options, **where, **options}
        self.pool.decode_attention(batch.layer, self.queries, given.pop("lengths", batch.lengths), self.out, **given)
        return self.out

    def error(self, **options: Any) -> float:
        return error_of(self.run(**options), self.batch.dtype, self.batch.expected)


def _poisoned(shape: tuple[int, ...], batch: AttentionBatch) -> Raw:
    size = DTYPES[batch.dtype].itemsize
    return np.full((*shape[:-1], shape[-1] * size), 0xFF, np.uint8).view(DTYPES[batch.dtype].storage)


@st.composite
def batches(draw: st.DrawFn) -> AttentionBatch:
    stored = draw(st.sampled_from(list(DTYPES)))
    eight_bits = DTYPES[stored].itemsize == 1
    scales = eight_bits and draw(st.booleans())
    layout = KVLayout(
        draw(st.integers(1, 3)),
        draw(st.integers(1, 3)),
        draw(st.integers(1, 20)),
        stored,
        draw(st.sampled_from([4, 12, 16] if scales else [1, 2, 3, 4, 7, 16])),
        draw(st.sampled_from(["block", "layer"])),
        draw(st.sampled_from(["NHD", "HND"])),
        draw(st.integers(1, 20)),
        scales=scales,
    )
    spans = draw(st.lists(st.builds(Span, st.integers(0, 40), st.integers(0, 45)), min_size=0, max_size=4))
    dtype = draw(st.sampled_from(COMPUTE_DTYPES)) if eight_bits else None
    spare, seed = draw(st.integers(0, 3)), draw(st.integers(0, 999))
    window, softcap = draw(st.none() | st.integers(1, 30)), draw(st.none() | st.sampled_from([0.5, 30.0]))
    rules = Rules(draw(st.integers(1, 5)), draw(st.booleans()), window, softcap)
    return AttentionBatch(layout, spans, draw(st.integers(1, 5)), seed=seed, dtype=dtype, spare=spare, rules=rules)


@given(batches())
def test_any_shape_by_the_definition(batch: AttentionBatch) -> None:
    on_host = OnHost(batch)
    before = batch.memory.copy()
    assert on_host.error() < TOLERANCES[batch.dtype]
    assert np.array_equal(batch.memory, before)
    margins = on_host.whole.copy()
    margins[..., 1:-1, 2:-2] = _poisoned(on_host.out.shape, batch)
    assert np.all(margins.view(np.uint8) == 0xFF), "written beside the result"


@pytest.fixture
def batch() -> AttentionBatch:
    return AttentionBatch(KVLayout(2, 2, 16, "float32", 4), [Span(9), Span(30, 3), Span(1)], 2, seed=1, spare=0)


def test_a_sequence_of_one_token_is_that_tokens_value(batch: AttentionBatch) -> None:
    found = OnHost(batch).run()
    value = batch.pool_array("v")[batch.table[2, 0], 0]
    np.testing.assert_array_equal(found[2], np.repeat(value, 2, axis=0))


def test_without_starts_all_tokens_count(batch: AttentionBatch) -> None:
    """Query 1 was built to start at 3: what lies before is NaN, and must come through."""
    found = OnHost(batch).run(starts=None)
    assert np.isnan(found[1]).all()
    assert error_of(found[::2], "float32", batch.expected[::2]) < 1e-6


def test_the_scale_of_the_softmax(batch: AttentionBatch) -> None:
    on_host = OnHost(batch)
    assert on_host.error(softmax_scale=0.25) < 1e-6
    flat = on_host.run(softmax_scale=0.0)
    values = batch.pool_array("v")[batch.table[0, np.arange(9) // 4], np.arange(9) % 4]
    np.testing.assert_allclose(flat[0, 0], values[:, 0].mean(axis=0), rtol=1e-5, atol=1e-6)


def test_a_draft_with_nan_reaches_only_queries_that_see_it(batch: AttentionBatch) -> None:
    drafts = AttentionBatch(batch.layout, [Span(9)], 2, seed=1, rules=Rules(3))
    on_host = OnHost(drafts)
    drafts.pool_array("v")[drafts.table[0, 2], 0] = np.nan  # token 8
    found = on_host.run()
    assert np.isnan(found[0, 2]).all()
    assert error_of(found[:, :2], "float32", drafts.expected[:, :2]) < 1e-6
    assert np.isnan(on_host.run(causal=False)).all()


def test_more_queries_than_tokens(batch: AttentionBatch) -> None:
    """Those in front of the sequence see nothing."""
    few = AttentionBatch(batch.layout, [Span(2), Span(0), Span(5, 4)], 2, seed=1, rules=Rules(4))
    on_host = OnHost(few)
    assert on_host.error() < 1e-6
    assert not on_host.out[0, :2].any()
    assert on_host.out[0, 2].any()
    assert not on_host.out[2, :3].any()


def test_windows_and_caps_at_their_ends(batch: AttentionBatch) -> None:
    on_host = OnHost(batch)
    plain = on_host.run().copy()
    np.testing.assert_array_equal(on_host.run(window=2**31 - 1, softcap=None), plain)
    np.testing.assert_allclose(on_host.run(softcap=1e6), plain, rtol=1e-5, atol=1e-6)
    own = on_host.run(window=1)
    value = batch.pool_array("v")[batch.table[1, 29 // 4], 29 % 4]
    np.testing.assert_array_equal(own[1], np.repeat(value, 2, axis=0))


def test_lengths_and_starts_out_of_range(batch: AttentionBatch) -> None:
    on_host = OnHost(batch)
    lengths = np.array([-1, -(2**31), 0], np.int32)
    assert not on_host.run(lengths=lengths).any()
    assert not on_host.run(starts=np.full(3, 2**31 - 1, np.int32)).any()
    full = AttentionBatch(batch.layout, [Span(12), Span(12), Span(3)], 2, seed=2, spare=0)
    beyond = np.array([13, 2**31 - 1, 3], np.int32)
    assert OnHost(full).error(lengths=beyond, starts=np.full(3, -5, np.int32)) < 1e-6


def test_blocks_outside_the_pool_are_left_out(batch: AttentionBatch) -> None:
    on_host = OnHost(batch)
    expected = on_host.run(lengths=np.array([8, 0, 0], np.int32)).copy()
    for hole in (-1, batch.blocks, 2**31 - 1, -(2**31)):
        on_host.table[0, 2] = hole
        np.testing.assert_array_equal(on_host.run(lengths=np.array([9, 0, 0], np.int32)), expected)
    on_host.table[:] = -1
    assert not on_host.run().any()


def test_rows_of_the_pools_tables(batch: AttentionBatch) -> None:
    on_host, lines = OnHost(batch), [5, 0, 63]
    rows = np.array(lines, np.int32)
    updates = [
        (lines[i], column, int(batch.table[i, column]))
        for i, span in enumerate(batch.spans)
        for column in range(-(-span.length // 4))
    ]
    on_host.pool.apply(plan(1, updates=updates))
    assert on_host.error(rows=rows) < 1e-6
    on_host.pool.apply(plan(2, updates=[(100, 0, 1)]))
    assert on_host.error(rows=rows) < 1e-6
    for outside in (-1, on_host.pool.tables.rows, 2**31 - 1):
        rows[1] = outside
        found = on_host.run(rows=rows)
        assert not found[1].any()
        assert error_of(found[::2], "float32", batch.expected[::2]) < 1e-6


def test_an_empty_batch(batch: AttentionBatch) -> None:
    none = AttentionBatch(batch.layout, [], 2, seed=3)
    assert OnHost(none).run().shape == (0, 4, 16)


def test_it_waits_for_its_stream_and_reads_what_is_there_then(batch: AttentionBatch) -> None:
    on_host = OnHost(batch, HostBackend(stepped=True))
    lengths = np.zeros(3, np.int32)
    on_host.run(lengths=lengths)
    assert np.isnan(on_host.out).all()
    lengths[:] = batch.lengths
    on_host.pool.stream.synchronize()
    assert error_of(on_host.out, "float32", batch.expected) < 1e-6


def test_frameworks_tensors_on_the_host(batch: AttentionBatch) -> None:
    torch = pytest.importorskip("torch")
    on_host = OnHost(batch)
    out = torch.full(batch.expected.shape, float("nan"))
    given = (torch.as_tensor(np.ascontiguousarray(on_host.queries)), torch.as_tensor(batch.lengths), out)
    table, starts = torch.as_tensor(batch.table), torch.as_tensor(batch.starts)
    on_host.pool.decode_attention(batch.layer, *given, table=table, starts=starts)
    assert error_of(out.numpy(), "float32", batch.expected) < 1e-6


def _change(**changed: Any) -> dict[str, Any]:
    return changed


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_change(queries=np.zeros((3, 4, 16))), "queries is float64"),
        (_change(queries=np.zeros((3, 4, 16), np.float16)), "queries is float16 .* give float32"),
        (_change(queries=np.zeros((3, 4), np.float32)), "queries is float32"),
        (_change(queries=np.zeros((3, 4, 8), np.float32)), r"queries have shape \(3, 4, 8\).* 2 KV heads of 16"),
        (_change(queries=np.zeros((3, 3, 16), np.float32)), "a multiple of the KV heads"),
        (_change(queries=np.zeros((3, 0, 16), np.float32)), "a multiple of the KV heads"),
        (_change(queries=np.zeros((3, 4, 32), np.float32)[..., ::2]), "last dimension must be contiguous"),
        (_change(queries=None), "queries"),
        (_change(queries=np.zeros((3, 2, 4, 16), np.float32)), "out is float32 of shape"),
        (
            _change(queries=np.zeros((3, 0, 4, 16), np.float32), out=np.zeros((3, 0, 4, 16), np.float32)),
            "tokens, a mul",
        ),
        (
            _change(queries=np.zeros((3, 2, 3, 16), np.float32), out=np.zeros((3, 2, 3, 16), np.float32)),
            "a multiple of",
        ),
        (
            _change(queries=np.zeros((3, 2, 4, 16), np.float32), out=np.zeros((3, 1, 4, 16), np.float32)),
            "out has shape",
        ),
        (_change(window=0), "window is 0"),
        (_change(window=2.0), "window is 2.0"),
        (_change(window=2**31), "window is 2147483648"),
        (_change(softcap=0.0), "softcap is 0.0; give a number of at least"),
        (_change(softcap=float("inf")), "softcap is inf"),
        (_change(softcap=-1), "softcap is -1.0"),
        (_change(out=np.zeros((3, 4, 15), np.float32)), r"out has shape \(3, 4, 15\); give \(3, 4, 16\)"),
        (_change(out=np.zeros((2, 4, 16), np.float32)), "out has shape"),
        (_change(out=np.zeros((3, 4, 16), np.float16)), "out is float16"),
        (_change(out=np.broadcast_to(np.zeros((1, 4, 16), np.float32), (3, 4, 16))), "out is .*read-only"),
        (_change(lengths=np.zeros(3, np.int64)), "lengths is int64"),
        (_change(lengths=np.zeros(2, np.int32)), "lengths has 2 entries for 3 queries"),
        (_change(lengths=[1, 2, 3]), "lengths"),
        (_change(starts=np.zeros(4, np.int32)), "starts has 4 entries"),
        (_change(starts=np.zeros(6, np.int32)[::2]), "starts is int32"),
        (_change(table=np.zeros((2, 3), np.int32)), "table has 2 entries"),
        (_change(table=np.zeros(3, np.int32)), "table is int32"),
        (_change(table=None), "give rows= .* or table="),
        (_change(rows=np.zeros(3, np.int32)), "one of them"),
        (_change(table=None, rows=np.zeros(3, np.int32)), "no plan with table updates has been applied"),
        (_change(table=None, rows=np.zeros(1, np.int32)), "rows has 1 entries"),
        (_change(layer=2), "layer is 2"),
        (_change(layer=-1), "layer is -1"),
        (_change(softmax_scale=float("nan")), "softmax_scale is nan"),
        (_change(softmax_scale="1"), "softmax_scale is '1'"),
        (_change(scales=(1.0, 2.0)), "stores float32"),
        (_change(scales=(1.0,)), "scales is"),
        (_change(scales=(float("inf"), 1.0)), "scales is .*inf"),
        (_change(stream=object()), "no stream of this backend"),
    ],
)
def test_bad_arguments_are_refused_and_nothing_is_written(
    batch: AttentionBatch, change: dict[str, Any], message: str
) -> None:
    on_host = OnHost(batch)
    given = {
        "layer": batch.layer,
        "queries": on_host.queries,
        "lengths": batch.lengths,
        "out": on_host.out,
        "table": on_host.table,
        **change,
    }
    with pytest.raises(InvalidArgumentError, match=message):
        on_host.pool.decode_attention(**given)
    assert np.isnan(on_host.out).all()
    assert on_host.error() < 1e-6


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        (OpaqueLayout(64, 4), "OpaqueLayout"),
        (KVLayout.latent(2, 16, "float32", 4), "latent"),
    ],
)
def test_pools_without_k_and_v(layout: Any, message: str) -> None:
    pool = DevicePool(layout, 4)
    zeros, one = np.zeros((1, 1, 16), np.float32), np.ones(1, np.int32)
    with pytest.raises(InvalidArgumentError, match=message):
        pool.decode_attention(0, zeros, one, zeros, table=np.zeros((1, 1), np.int32))


def test_a_pool_without_bytes() -> None:
    pool = DevicePool(KVLayout(1, 1, 16, "float32", 4), 4, device="null")
    zeros, one = np.zeros((1, 1, 16), np.float32), np.ones(1, np.int32)
    with pytest.raises(InvalidArgumentError, match="null backend"):
        pool.decode_attention(0, zeros, one, zeros, table=np.zeros((1, 1), np.int32))


def test_a_closed_cache_attends_to_nothing() -> None:
    """Its tables are gone with it."""
    layout = KVLayout(1, 1, 16, "float32", 4)
    cache = KVCache(KVCacheManager(4, 4), DevicePool(layout, 4))
    cache.register_sequence(1)
    cache.append_tokens(1, 3)
    zeros, out = np.zeros((1, 1, 16), np.float32), np.full((1, 1, 16), np.nan, np.float32)
    rows, lengths = np.array([cache.manager.row(1)], np.int32), np.array([3], np.int32)
    cache.pool.decode_attention(0, zeros, lengths, out, rows=rows)
    assert not out.any()
    cache.close()
    out[:] = np.nan
    with pytest.raises(BackendError, match="POOL_CLOSED"):
        cache.pool.decode_attention(0, zeros, lengths, out, rows=rows)
    assert np.isnan(out).all()
