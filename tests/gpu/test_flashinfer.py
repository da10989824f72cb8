"""FlashInfer on our memory: views of a layer, in both layouts and orders, as its paged cache. Where it is installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pagedkv import DevicePool, KVCacheManager, KVLayout

from .engine_side import on_gpu

# Its own warnings are not ours.
pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore")]

_BLOCK, _KV_HEADS, _HEADS, _DIM, _LAYERS = 16, 4, 16, 128, 3
_LENGTHS = [1, 16, 17, 200, 700]


@pytest.fixture(scope="module")
def flashinfer() -> Any:
    pytest.importorskip("torch")
    return pytest.importorskip("flashinfer")


class Served:
    """Five sequences whose blocks lie in disorder, their K and V in a pool of poisoned memory and in float64."""

    def __init__(self, torch: Any, order: Any, kv_layout: Any) -> None:
        self.torch = torch
        layout = KVLayout(_LAYERS, _KV_HEADS, _DIM, "bfloat16", _BLOCK, order=order, kv_layout=kv_layout)
        self.manager = KVCacheManager(128, _BLOCK)
        self.pool = DevicePool(layout, 128, device="cuda:0")
        self.pool.fill_blocks(range(128), range(128))  # bytes that are no keys of anybody
        for seq_id in range(len(_LENGTHS)):
            self.manager.admit(seq_id, (), reserve=0)
        # A few tokens each in turn, so that no sequence's blocks are neighbors.
        left, parts = np.array(_LENGTHS), []
        while left.any():
            counts = np.minimum(left, 20)
            ids = np.flatnonzero(counts)
            plan = self.manager.append(ids, counts[ids])
            self.pool.apply(plan)
            parts.append((np.repeat(ids, counts[ids]), plan.slots.copy()))
            left -= counts
        self.owners, self.slots = (np.concatenate(side) for side in zip(*parts, strict=True))
        self.k, self.v = (torch.randn(len(self.slots), _KV_HEADS, _DIM, device="cuda").bfloat16() for _ in range(2))
        csr = self.manager.csr(range(len(_LENGTHS)))
        self.csr = tuple(on_gpu(torch, part, "int32") for part in (csr.indptr, csr.indices, csr.last_page_len))
        torch.cuda.synchronize()

    def attention(self, queries: Any) -> Any:
        """Decode attention in float64."""
        torch, rows = self.torch, []
        for seq_id in range(len(_LENGTHS)):
            chosen = torch.from_numpy(np.flatnonzero(self.owners == seq_id)).cuda()
            k, v = (side[chosen].double().repeat_interleave(_HEADS // _KV_HEADS, 1) for side in (self.k, self.v))
            weights = torch.softmax(torch.einsum("hd,nhd->hn", queries[seq_id].double(), k) * _DIM**-0.5, -1)
            rows.append(torch.einsum("hn,nhd->hd", weights, v))
        return torch.stack(rows)


@pytest.mark.parametrize("kv_layout", ["NHD", "HND"])
@pytest.mark.parametrize("order", ["block", "layer"])
def test_decode_reads_what_write_kv_wrote(torch: Any, flashinfer: Any, order: Any, kv_layout: Any) -> None:
    served = Served(torch, order, kv_layout)
    served.pool.write_kv(1, served.k, served.v, served.slots)
    served.pool.stream.synchronize()
    views = served.pool.layer(1)
    assert views.v is not None
    assert views.kv is not None
    queries = torch.randn(len(_LENGTHS), _HEADS, _DIM, device="cuda").bfloat16()
    workspace = torch.empty(128 << 20, dtype=torch.uint8, device="cuda")
    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(workspace, kv_layout)
    wrapper.plan(*served.csr, _HEADS, _KV_HEADS, _DIM, _BLOCK, q_data_type=torch.bfloat16, kv_data_type=torch.bfloat16)
    wanted = served.attention(queries)
    for cache in (views.kv.torch(), (views.k.torch(), views.v.torch())):
        found = wrapper.run(queries, cache).double()
        assert float((found - wanted).norm() / wanted.norm()) < 5e-3
        assert torch.allclose(found, wanted, atol=2e-2, rtol=2e-2)
    served.pool.close()


@pytest.mark.parametrize("kv_layout", ["NHD", "HND"])
@pytest.mark.parametrize("order", ["block", "layer"])
def test_its_append_and_ours_leave_the_same_bytes(torch: Any, flashinfer: Any, order: Any, kv_layout: Any) -> None:
    served = Served(torch, order, kv_layout)
    pool = served.pool
    before = pool.read_blocks(range(128)) if order == "block" else None
    positions = on_gpu(torch, [np.count_nonzero(served.owners[:i] == o) for i, o in enumerate(served.owners)], "int32")
    batch = on_gpu(torch, served.owners, "int32")
    views = pool.layer(2)
    assert views.v is not None
    cache = (views.k.torch(), views.v.torch())
    indptr, indices, last = served.csr
    flashinfer.append_paged_kv_cache(served.k, served.v, batch, positions, cache, indices, indptr, last, kv_layout)
    torch.cuda.synchronize()
    outs = [torch.full_like(served.k, 7), torch.full_like(served.v, 7)]
    pool.gather_kv(2, served.slots, *outs)
    pool.stream.synchronize()
    assert torch.equal(outs[0], served.k)
    assert torch.equal(outs[1], served.v)
    if before is not None:
        theirs = pool.read_blocks(range(128))
        pool.write_blocks(range(128), before)
        pool.write_kv(2, served.k, served.v, served.slots)
        np.testing.assert_array_equal(pool.read_blocks(range(128)), theirs)
    pool.close()
