"""What decode attention refuses, before anything is written."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pagedkv import BackendError, DevicePool, InvalidArgumentError, KVCache, KVCacheManager, OpaqueLayout
from pagedkv.kv_layout import KVLayout

from .attention_batches import AttentionBatch, Span
from .attention_on_host import OnHost


@pytest.fixture
def batch() -> AttentionBatch:
    return AttentionBatch(KVLayout(2, 2, 16, "float32", 4), [Span(9), Span(30, 3), Span(1)], 2, seed=1, spare=0)


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
        (_change(softcap=1e31), r"softcap is 1e\+31; give .* at most 1e\+30"),
        (_change(softmax_scale=3e38), "softmax_scale 3e\\+38 with K's scale 1 and no softcap leaves float32"),
        (_change(softmax_scale=1e33, softcap=1e-6), "and softcap 1e-06 leaves float32"),
        (_change(causal="no"), "causal is 'no'; give True or False"),
        (_change(causal=np.array([True, False])), "causal is array"),
        (_change(queries=SimpleNamespace(shape=3)), "queries is a SimpleNamespace"),
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
