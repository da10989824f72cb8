"""Decode attention on the host against the definition: random shapes and lengths in poisoned memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedkv import InvalidArgumentError
from pagedkv.backends.host import HostBackend
from pagedkv.dtypes import COMPUTE_DTYPES, DTYPES
from pagedkv.kv_layout import KVLayout

from .attention_batches import AttentionBatch, Raw, Rules, Span, error_of
from .attention_on_host import OnHost, poisoned
from .plans import plan

# Of a head's result by its norm. The reference computes in float64: what is left is the rounding of a result.
TOLERANCES = {"float32": 1e-6, "float16": 2.0**-11, "bfloat16": 2.0**-8}


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
    margins[..., 1:-1, 2:-2] = poisoned(on_host.out.shape, batch)
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


class _Exported:
    """A tensor that offers DLPack and says nothing else, not even how many dimensions it has."""

    def __init__(self, array: Raw) -> None:
        self._array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()


@pytest.mark.parametrize("tokens", [1, 2])
def test_tensors_that_do_not_say_how_many_dimensions_they_have(batch: AttentionBatch, tokens: int) -> None:
    few = AttentionBatch(batch.layout, [Span(9), Span(3)], 2, seed=1, rules=Rules(tokens))
    on_host = OnHost(few)
    on_host.queries, on_host.out = few.queries.copy(), np.full_like(few.queries, np.nan)
    arrays = on_host.queries, on_host.out
    on_host.queries, on_host.out = (_Exported(array) for array in arrays)  # type: ignore[assignment]
    on_host.run()
    assert error_of(arrays[1], "float32", few.expected) < 1e-6
    on_host.queries = _Exported(arrays[0].reshape(-1))  # type: ignore[assignment]
    with pytest.raises(InvalidArgumentError, match="give float32 with 3 dimensions"):
        on_host.run()


def test_frameworks_tensors_on_the_host(batch: AttentionBatch) -> None:
    torch = pytest.importorskip("torch")
    on_host = OnHost(batch)
    out = torch.full(batch.expected.shape, float("nan"))
    given = (torch.as_tensor(np.ascontiguousarray(on_host.queries)), torch.as_tensor(batch.lengths), out)
    table, starts = torch.as_tensor(batch.table), torch.as_tensor(batch.starts)
    on_host.pool.decode_attention(batch.layer, *given, table=table, starts=starts)
    assert error_of(out.numpy(), "float32", batch.expected) < 1e-6
