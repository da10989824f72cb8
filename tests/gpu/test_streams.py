"""Streams as engines give them; work is on the stream that was given, and behind what was there before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from memory.plans import HandMadePlan, plan
from pagedkv import DevicePool, OpaqueLayout
from pagedkv.errors import InvalidArgumentError

from .engine_side import Peek, StreamProtocol, adopted_pool, block_of
from .gate import Gate

pytestmark = pytest.mark.gpu

LAYOUT = OpaqueLayout(64, 4)
SIZE = LAYOUT.block_bytes
GIVEN = ["int", "zero", "torch", "protocol", "cuda.core"]


def given_stream(torch: Any, how: str) -> tuple[Any, int]:
    """(what a caller hands in, its handle)."""
    if how == "zero":
        return 0, 0
    if how == "cuda.core":
        from cuda.core import Device

        device = Device(0)
        device.set_current()
        made = device.create_stream()
        return made, int(made.handle)
    stream = torch.cuda.Stream()
    if how == "torch":
        if not hasattr(stream, "__cuda_stream__"):
            pytest.skip("this torch has no __cuda_stream__")
        return stream, stream.cuda_stream
    return (stream.cuda_stream if how == "int" else StreamProtocol(stream.cuda_stream)), stream.cuda_stream


@pytest.fixture
def warm_pool(torch: Any, warm: Callable[[OpaqueLayout], None]) -> tuple[DevicePool, Any]:
    """A pool of 64 blocks in random bytes, with everything loaded and its tables made."""
    warm(LAYOUT)
    pool, memory = adopted_pool(torch, LAYOUT, 64)
    pool.apply(plan(1, copies=[(62, 63)], updates=[(0, 0, 1)]))
    pool.stream.synchronize()
    return pool, memory


@pytest.mark.parametrize("how", GIVEN)
def test_apply_runs_on_the_given_stream(
    torch: Any, warm_pool: tuple[DevicePool, Any], new_gate: Callable[[], Gate], peek: Peek, how: str
) -> None:
    pool, memory = warm_pool
    stream, handle = given_stream(torch, how)
    source, target = block_of(memory, LAYOUT, 3).tobytes(), block_of(memory, LAYOUT, 9).tobytes()
    gate = new_gate()
    gate.hold(handle)
    pool.apply(plan(2, copies=[(3, 9)]), stream=stream)
    pool.step_done(2)
    assert peek(memory, 9 * SIZE, SIZE) == target, "the copy is behind the gate"
    assert pool.finished_step() == 0
    gate.open()
    assert pool.wait_step(2) == 2
    assert peek(memory, 9 * SIZE, SIZE) == source
    assert pool.verify_blocks([9], 1, stream=stream) == 1
    pool.close()


def test_a_new_compute_stream_is_behind_the_former(
    torch: Any, warm_pool: tuple[DevicePool, Any], new_gate: Callable[[], Gate], peek: Peek
) -> None:
    pool, memory = warm_pool
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    content = block_of(memory, LAYOUT, 3).tobytes()
    before = block_of(memory, LAYOUT, 5).tobytes()
    gate = new_gate()
    gate.hold(first.cuda_stream)
    pool.apply(plan(2, copies=[(3, 4)]), stream=first.cuda_stream)
    pool.apply(plan(3, copies=[(4, 5)]), stream=second.cuda_stream)
    assert not second.query()
    assert peek(memory, 5 * SIZE, SIZE) == before
    gate.open()
    second.synchronize()
    assert peek(memory, 5 * SIZE, SIZE) == content
    pool.close()


def test_a_fence_holds_a_copy_stream_back(
    torch: Any, warm_pool: tuple[DevicePool, Any], new_gate: Callable[[], Gate]
) -> None:
    pool, memory = warm_pool
    copy_stream = torch.cuda.Stream()
    landed = torch.empty(SIZE, dtype=torch.uint8, pin_memory=True)
    gate = new_gate()
    gate.hold(pool.stream.__cuda_stream__()[1])  # type: ignore[attr-defined]
    pool.fill_blocks([7], 70)
    pool.fence(copy_stream.cuda_stream)
    pool.read_blocks([7], out=landed.numpy().reshape(1, SIZE), stream=copy_stream.cuda_stream)
    assert not copy_stream.query()
    gate.open()
    copy_stream.synchronize()
    assert landed.numpy().tobytes() == block_of(memory, LAYOUT, 7).tobytes()
    assert pool.verify_blocks([7], 70) == 0
    pool.close()


@pytest.mark.parametrize("count", [3, 40])
def test_applies_in_a_row_keep_their_own_content(
    torch: Any, warm_pool: tuple[DevicePool, Any], new_gate: Callable[[], Gate], count: int
) -> None:
    """Staging memory that is used again too early uploads the last plan's content for all of them."""
    pool, memory = warm_pool
    expected = memory.cpu().numpy().reshape(64, SIZE).copy()
    random = np.random.default_rng(count)
    stream = torch.cuda.Stream()
    gate = new_gate()
    gate.hold(stream.cuda_stream)
    table: dict[tuple[int, int], int] = {}
    for step in range(2, count + 2):
        source, target = random.choice(64, 2, replace=False).tolist()
        updates = [(row, step % 64, int(random.integers(64))) for row in range(step % 5 + 1)]
        made = plan(step, copies=[(source, target)], updates=updates)
        pool.apply(made, stream=stream.cuda_stream)
        spoil(made)
        expected[target] = expected[source]
        table.update({(row, column): block for row, column, block in updates})
    assert not stream.query(), "all of them were put on before the first one ran"
    gate.open()
    stream.synchronize()
    assert np.array_equal(memory.cpu().numpy().reshape(64, SIZE), expected)
    cells = read_table(pool)
    assert {cell: int(cells[cell]) for cell in table} == table
    pool.close()


def spoil(made: HandMadePlan) -> None:
    """The caller may reuse a plan's arrays at once."""
    made.copies[:] = [[60, 61]]
    made.updates[:] = [[9, 9, 63]]


def read_table(pool: DevicePool) -> Any:
    """The device-resident tables, int32 [rows, width]."""
    cells = np.empty(pool.tables.rows * pool.tables.width * 4, np.uint8)
    assert pool.tables.memory is not None
    pool.backend.download(pool.tables.memory.buffer, 0, cells, pool.stream)
    pool.stream.synchronize()
    return cells.view(np.int32).reshape(pool.tables.rows, pool.tables.width)


@pytest.mark.parametrize("stream", [-1, True, 1.0, "0", object()])
def test_what_is_no_stream_is_refused(stream: Any) -> None:
    with DevicePool(LAYOUT, 4, device="cuda:0") as pool:
        with pytest.raises(InvalidArgumentError, match="is no CUDA stream"):
            pool.apply(plan(1, updates=[(0, 0, 1)]), stream=stream)
        pool.apply(plan(1, updates=[(0, 0, 1)]))
