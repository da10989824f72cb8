"""Decode attention on a GPU with several query tokens, windows and soft caps, and over 8-bit layouts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from memory.attention_batches import AttentionBatch, Rules, Span, error_of
from pagedkv.kv_layout import KVLayout

from .attention_on_gpu import HEAD_DIMS, TOLERANCES, OnGpu, doubles, spans_of

pytestmark = pytest.mark.gpu

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


@pytest.mark.parametrize("stored", ["bfloat16", "float8_e4m3fn"])
@pytest.mark.parametrize("head_dim", HEAD_DIMS)
@pytest.mark.parametrize("apart", [1, 2, 8])
def test_queries_that_begin_at_any_element(torch: Any, head_dim: int, stored: str, apart: int) -> None:
    for ratio, tokens in ((3, 1), (16, 1), (2, 4), (4, 4), (8, 4)):
        layout = KVLayout(1, 2, head_dim, stored, 16)
        batch = AttentionBatch(layout, spans_of(16), ratio, seed=ratio, dtype="bfloat16", rules=Rules(tokens))
        assert OnGpu(torch, batch, apart=apart).error() < TOLERANCES["bfloat16"], (ratio, tokens)


@pytest.mark.parametrize("dtype", list(TOLERANCES))
@pytest.mark.parametrize("head_dim", HEAD_DIMS)
def test_a_draft_with_nan_reaches_only_queries_that_see_it(torch: Any, head_dim: int, dtype: str) -> None:
    batch = AttentionBatch(KVLayout(1, 2, head_dim, dtype, 16), [Span(21)], 4, seed=1, rules=Rules(4))
    last = batch.pool_array("v")[batch.table[0, 1], 4]
    last.view(np.uint8)[:] = 0xFF
    on_gpu = OnGpu(torch, batch)
    found = on_gpu.run()
    assert np.isnan(doubles(found[:, 3], dtype)).all()
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


@pytest.mark.parametrize("head_dim", [64, 128])
@pytest.mark.parametrize("ratio", [1, 8])
@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_a_scale_that_is_no_number_reaches_only_queries_that_see_it(
    torch: Any, head_dim: int, ratio: int, wrong: float
) -> None:
    layout = KVLayout(1, 2, head_dim, "int8", 16, scales=True)
    batch = AttentionBatch(layout, [Span(21)], ratio, seed=1, dtype="bfloat16", rules=Rules(4))
    batch.pool_array("v_scale")[batch.table[0, 1], 4] = wrong  # of the last token
    found = OnGpu(torch, batch).run()
    assert np.isinf(wrong) or np.isnan(doubles(found[:, 3], "bfloat16")).all()
    assert error_of(found[:, :3], "bfloat16", batch.expected[:, :3]) < TOLERANCES["bfloat16"]


def test_8_bit_vectors_that_begin_at_odd_multiples_of_8_bytes(torch: Any) -> None:
    """Loads of 16 bytes would fault: these layouts take the kernel that loads four numbers."""
    layout = KVLayout(2, 1, 64, "int8", 5, scales=True)
    for rules in (Rules(), Rules(3)):
        batch = AttentionBatch(layout, spans_of(5), 4, seed=5, dtype="bfloat16", rules=rules)
        assert OnGpu(torch, batch).error() < TOLERANCES["bfloat16"]


@pytest.mark.parametrize("stored", ["float8_e4m3fn", "int8"])
@pytest.mark.parametrize("size", [1e-30, 1e-6, 1e6, 1e30])
def test_8_bit_layouts_of_very_small_and_very_large_scales(torch: Any, stored: str, size: float) -> None:
    """Beyond what float16 holds, and different by 2^20 from token to token."""
    layout = KVLayout(1, 2, 128, stored, 16, scales=True)
    batch = AttentionBatch(layout, [Span(200), Span(3)], 4, seed=3, dtype="bfloat16")
    plain = OnGpu(torch, batch)
    first = doubles(plain.run(), "bfloat16")
    batch.pool_array("v_scale")[:] *= np.float32(size)
    scaled = OnGpu(torch, batch)
    found = doubles(scaled.run(), "bfloat16") / np.float64(np.float32(size))
    assert np.linalg.norm(found - first) < 2.0**-7 * np.linalg.norm(first)
    few = batch.pool_array("v_scale")
    few[:, ::3] *= np.float32(2.0**20)
    k, v = (batch.pool_array(part) for part in ("k", "v"))
    numbers = [doubles(raw, stored) for raw in (k, v)]
    wide = doubles(OnGpu(torch, batch).run(), "bfloat16")
    queries = doubles(batch.queries, "bfloat16")
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
    first = doubles(on_gpu.run(), "bfloat16")
    on_gpu.queries.mul_(size)
    torch.cuda.synchronize()
    found = doubles(on_gpu.run(softmax_scale=1 / (8 * size)), "bfloat16")
    if size > 2.0**-100:  # where float32 holds a score's scale
        assert np.linalg.norm(found - first) < 2.0**-7 * np.linalg.norm(first)
    else:
        assert np.isfinite(found).all()
