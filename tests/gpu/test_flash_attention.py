"""FlashAttention on our memory: views of a layer and a block table as its paged cache. Where it is installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pagedkv import DevicePool, KVLayout

from .engine_side import on_gpu

# Its own warnings are not ours.
pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore")]

_BLOCK = 256  # FlashAttention 2 takes multiples of 256
_LENGTHS = [1, 256, 300, 600]
_TABLE = [[5, 0, 0], [9, 0, 0], [2, 7, 0], [11, 4, 8]]


@pytest.mark.parametrize("order", ["block", "layer"])
def test_decode_reads_what_write_kv_wrote(torch: Any, order: Any) -> None:
    flash_attn = pytest.importorskip("flash_attn")
    pool = DevicePool(KVLayout(2, 2, 64, "bfloat16", _BLOCK, order=order), 12, device="cuda:0")
    for layer in range(2):
        junk = torch.full((12 * _BLOCK, 2, 64), float("nan"), device="cuda").bfloat16()
        torch.cuda.synchronize()
        pool.write_kv(layer, junk, junk, range(12 * _BLOCK))
    places = [_TABLE[row][at // _BLOCK] * _BLOCK + at % _BLOCK for row, n in enumerate(_LENGTHS) for at in range(n)]
    k, v = (torch.randn(len(places), 2, 64, device="cuda").bfloat16() for _ in range(2))
    queries = torch.randn(len(_LENGTHS), 1, 8, 64, device="cuda").bfloat16()
    torch.cuda.synchronize()
    pool.write_kv(1, k, v, places)
    pool.stream.synchronize()
    views = pool.layer(1)
    assert views.v is not None
    table, lengths = on_gpu(torch, _TABLE, "int32"), on_gpu(torch, _LENGTHS, "int32")
    found = flash_attn.flash_attn_with_kvcache(
        queries, views.k.torch(), views.v.torch(), cache_seqlens=lengths, block_table=table, causal=True
    )
    start = 0
    for row, length in enumerate(_LENGTHS):
        keys, values = (side[start : start + length].double().repeat_interleave(4, 1) for side in (k, v))
        weights = torch.softmax(torch.einsum("hd,nhd->hn", queries[row, 0].double(), keys) / 8, -1)
        wanted = torch.einsum("hn,nhd->hd", weights, values)
        assert torch.allclose(found[row, 0].double(), wanted, atol=2e-2, rtol=2e-2)
        start += length
    assert np.isfinite(found.float().cpu().numpy()).all()
    pool.close()
