"""Capture into a CUDA graph: exports at fixed addresses see the tables of the day; an apply repeats itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from memory.plans import plan
from pagedkv import KVLayout

from .engine_side import adopted_pool, on_gpu

pytestmark = pytest.mark.gpu

LAYOUT = KVLayout(64, 4)


def test_captured_exports_follow_the_tables(torch: Any) -> None:
    pool, _ = adopted_pool(torch, LAYOUT, 64)
    stream = torch.cuda.Stream()
    rows, lengths = on_gpu(torch, [2, 0, -1], "int32"), on_gpu(torch, [5, 3, 0], "int32")
    positions = on_gpu(torch, [4, 2, 0], "int64")
    table = torch.full((3, 2), -9, dtype=torch.int32, device="cuda")
    slots = torch.full((3,), -9, dtype=torch.int64, device="cuda")
    csr = tuple(torch.full((count,), -9, dtype=torch.int32, device="cuda") for count in (4, 8, 3))
    pool.apply(plan(1, updates=[(2, 0, 10), (2, 1, 11), (0, 0, 12)]), stream=stream.cuda_stream)

    def export() -> None:
        pool.tables.gather(rows, lengths, table)
        pool.tables.slots(rows, positions, slots)
        pool.tables.csr(rows, lengths, csr)

    export()  # engines run a step once before they capture it: kernels are loaded then
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        export()

    pool.apply(plan(2, updates=[(2, 0, 20), (0, 0, 22)]), stream=stream.cuda_stream)
    for poisoned in (table, slots, *csr):
        poisoned.fill_(-9)
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        graph.replay()
    stream.synchronize()
    assert table.tolist() == [[20, 11], [22, 0], [0, 0]]
    assert slots.tolist() == [11 * 4, 22 * 4 + 2, -1]
    assert csr[0].tolist() == [0, 2, 3, 3]
    assert csr[1].tolist()[:3] == [20, 11, 22]

    # New rows, lengths and positions in the same arrays, as an engine writes them for each step.
    rows.copy_(torch.tensor([0, -1, 2]))
    lengths.copy_(torch.tensor([1, 0, 8]))
    positions.copy_(torch.tensor([0, 0, 7]))
    torch.cuda.synchronize()
    pool.apply(plan(3, updates=[(2, 1, 31), (0, 0, 32)]), stream=stream.cuda_stream)
    with torch.cuda.stream(stream):
        graph.replay()
    stream.synchronize()
    assert table.tolist() == [[32, 0], [0, 0], [20, 31]]
    assert slots.tolist() == [32 * 4, -1, 31 * 4 + 3]
    pool.close()


def test_a_captured_apply_does_its_copies_and_updates_at_every_replay(torch: Any) -> None:
    pool, memory = adopted_pool(torch, LAYOUT, 64)
    blocks = memory.view(64, LAYOUT.block_bytes)
    stream = torch.cuda.Stream()
    pool.apply(plan(1, copies=[(60, 61)], updates=[(0, 0, 1), (0, 1, 2)]), stream=stream.cuda_stream)
    torch.cuda.synchronize()
    before = memory.cpu().numpy().copy()
    graph = torch.cuda.CUDAGraph()
    captured = plan(2, copies=[(5, 6), (7, 8)], updates=[(0, 0, 33)])
    with torch.cuda.graph(graph, stream=stream):
        pool.apply(captured, stream=stream.cuda_stream)
    torch.cuda.synchronize()
    assert np.array_equal(memory.cpu().numpy(), before), "captured, not run"
    captured.copies[:] = 0
    captured.updates[:] = 0

    rows, lengths = on_gpu(torch, [0], "int32"), on_gpu(torch, [8], "int32")
    table = torch.full((1, 2), -9, dtype=torch.int32, device="cuda")
    for step in range(3, 80):  # many others in between, so that staging memory goes round
        pool.apply(plan(step, copies=[(step % 3, 40)], updates=[(0, 0, step % 60), (0, 1, 50)]))
    torch.cuda.synchronize()
    for round_ in range(3):
        blocks[5].random_(0, 256)
        blocks[8].fill_(round_)
        table.fill_(-9)
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            graph.replay()
        pool.tables.gather(rows, lengths, table)
        stream.synchronize()
        assert torch.equal(blocks[6], blocks[5])
        assert torch.equal(blocks[8], blocks[7])
        assert table.tolist() == [[33, 50]]
        pool.apply(plan(80 + round_, updates=[(0, 0, 4)]))
    pool.close()
