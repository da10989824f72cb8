"""Capture into a CUDA graph: exports at fixed addresses see the tables of the day; an apply repeats itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from memory.plans import plan
from pagedkv import KVCacheManager, OpaqueLayout

from .engine_side import adopted_pool, on_gpu

pytestmark = pytest.mark.gpu

LAYOUT = OpaqueLayout(64, 4)


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


def test_g4_beams_write_through_one_captured_step(torch: Any) -> None:
    """Case G4 (N=8, B=2) with the model's step in a graph: forks, copies on write and reorders reach it by the tables.

    The graph asks the tables for the slots of its beams, and stores a token for each; plans are applied in front of it.
    """
    layout = OpaqueLayout(64, 2)
    manager, beams = KVCacheManager(8, 2), [1, 2, 3]
    pool, memory = adopted_pool(torch, layout, 8)
    tokens = memory.view(-1, layout.token_bytes)
    stream = torch.cuda.Stream()
    manager.admit(1, [1, 2, 3])
    prompt = manager.append([1], [3])
    pool.apply(prompt, stream=stream.cuda_stream)
    for slot, value in zip(prompt.slots.tolist(), (1, 2, 3), strict=True):
        tokens[slot].fill_(value)
    manager.fork(1, beams[1:])
    rows = on_gpu(torch, [manager.row(beam) for beam in beams], "int32")
    positions, slots = on_gpu(torch, [0, 0, 0], "int64"), on_gpu(torch, [0, 0, 0], "int64")
    values = torch.zeros((3, layout.token_bytes), dtype=torch.uint8, device="cuda")
    # Kernels are loaded by a run before the capture; this one must not touch the pool.
    pool.tables.slots(rows, positions, slots)
    tokens.clone().index_copy_(0, on_gpu(torch, [0, 1, 2], "int64"), values)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        pool.tables.slots(rows, positions, slots)
        tokens.index_copy_(0, slots, values)

    def append(new: tuple[int, int, int]) -> tuple[int, int]:
        """One step; how many copies its plan had, and how many blocks are in use."""
        plan_ = manager.append(beams, [1, 1, 1])
        pool.apply(plan_)
        with torch.cuda.stream(stream):
            positions.copy_(torch.from_numpy(plan_.lengths.astype(np.int64) - 1))
            values.copy_(torch.tensor(new, dtype=torch.uint8)[:, None].expand(3, layout.token_bytes))
            graph.replay()
        stream.synchronize()
        assert slots.tolist() == plan_.slots.tolist()
        return len(plan_.copies), manager.get_stats().allocated_blocks

    def texts() -> list[list[int]]:
        held = tokens.cpu().numpy()
        assert (held == held[:, :1]).all(axis=1)[manager.slot_mapping(beams)].all(), "a token is torn"
        return [held[manager.slot_mapping([beam]), 0].tolist() for beam in beams]

    assert append((10, 20, 30)) == (2, 4)
    assert texts() == [[1, 2, 3, 10], [1, 2, 3, 20], [1, 2, 3, 30]]
    pool.apply(manager.reorder(beams, [1, 1, 0]))
    assert texts() == [[1, 2, 3, 20], [1, 2, 3, 20], [1, 2, 3, 10]]
    assert append((11, 12, 13)) == (0, 6)
    pool.apply(manager.reorder(beams, [0, 0, 2]))
    assert append((14, 15, 16)) == (1, 6)
    assert texts() == [[1, 2, 3, 20, 11, 14], [1, 2, 3, 20, 11, 15], [1, 2, 3, 10, 13, 16]]
    manager.free(beams)
    manager.check()
    assert manager.get_stats().free_blocks == 8
    pool.close()
