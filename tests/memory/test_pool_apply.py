"""apply: copies, then table updates, in step order, checked against the pool; tables that grow under work."""

from __future__ import annotations

import numpy as np
import pytest

from pagedkv import DevicePool, KVCacheManager, OpaqueLayout, StepPlan
from pagedkv.backends.host import HostBackend, HostStream
from pagedkv.errors import InvalidArgumentError

from .plans import HandMadePlan, plan

LAYOUT = OpaqueLayout(16, 2)
PAIRS = list[tuple[int, int]]


@pytest.fixture
def pool() -> DevicePool:
    pool = DevicePool(LAYOUT, 8, scratch_blocks=1, first_step=3)
    pool.fill_blocks(range(9), range(9))
    pool.apply(plan(3, updates=[(0, 0, 7)]))
    return pool


def untouched(pool: DevicePool) -> bool:
    tables = pool.tables.array
    return (
        pool.verify_blocks(range(9), range(9)) == 0
        and (int(tables[0, 0]), tables.shape, pool.applied_step, pool.failure) == (7, (64, 8), 3, None)
        and int(np.count_nonzero(tables != 8)) == 1
    )


@pytest.mark.parametrize("step", [3, 2, 1, 0, -1, 5, 1000, 2**63 - 1])
def test_every_plan_is_applied_once_and_none_is_missing(pool: DevicePool, step: int) -> None:
    with pytest.raises(InvalidArgumentError, match="after step 3"):
        pool.apply(plan(step, copies=[(0, 1)], updates=[(0, 0, 1)]))
    assert untouched(pool)
    pool.apply(plan(4))
    assert pool.applied_step == 4


@pytest.mark.parametrize("copies", [
    [(0, 9)], [(9, 0)], [(-1, 0)], [(0, -1)], [(0, 2**31 - 1)], [(-(2**31), 0)],
    [(0, 1), (2, 9)],
    [(4, 4)],  # onto itself
    [(0, 1), (1, 2)],  # reads what the launch writes
    [(1, 2), (0, 1)],
    [(0, 1), (1, 0)],  # a swap
    [(0, 2), (1, 2)],  # written twice
])  # fmt: skip
def test_copies_that_no_launch_may_hold(pool: DevicePool, copies: PAIRS) -> None:
    with pytest.raises(InvalidArgumentError):
        pool.apply(plan(4, copies=copies, updates=[(0, 0, 1)]))
    with pytest.raises(InvalidArgumentError):
        pool.copy_blocks(copies)
    assert untouched(pool)


@pytest.mark.parametrize("update", [
    (0, 0, 9), (0, 0, -1), (0, 8, 0), (0, -1, 0), (-1, 0, 0), (-(2**31), 0, 0), (0, 2**31 - 1, 0), (0, 0, 2**31 - 1),
])  # fmt: skip
def test_updates_outside_the_pool(pool: DevicePool, update: tuple[int, int, int]) -> None:
    with pytest.raises(InvalidArgumentError, match="8 columns"):
        pool.apply(plan(4, copies=[(0, 1)], updates=[(0, 1, 1), update, (0, 2, 3)]))
    assert untouched(pool)


def test_one_source_may_have_several_destinations(pool: DevicePool) -> None:
    pool.apply(plan(4, copies=[(2, 0), (2, 1), (3, 8)]))
    assert pool.verify_blocks(range(9), [2, 2, 2, 3, 4, 5, 6, 7, 3]) == 0


def test_a_plan_of_another_manager_is_refused() -> None:
    large = KVCacheManager(100, 2)
    large.admit(1, (), reserve=200)
    with DevicePool(LAYOUT, 8) as pool, pytest.raises(InvalidArgumentError, match="its own manager"):
        pool.apply(large.append([1], [200]))


def test_one_manager_serves_several_pools_and_plans_travel_as_bytes() -> None:
    manager = KVCacheManager(8, 2)
    pools = [DevicePool(LAYOUT, 8), DevicePool(OpaqueLayout(48, 2), 8), DevicePool(LAYOUT, 8, device="null")]
    for seq_id in (1, 2):
        manager.admit(seq_id, (), reserve=5)
    decided = manager.append([2, 1], [5, 3])
    for pool in pools:
        pool.apply(StepPlan.from_bytes(decided.to_bytes()))
    for pool in pools[:2]:
        assert pool.tables.array[[0, 1], :3].tolist() == manager.block_table([1, 2], width=3).tolist()


def test_a_pinned_block_is_copied_before_the_sequence_writes_it() -> None:
    manager = KVCacheManager(8, 2)
    with DevicePool(LAYOUT, 8) as pool:
        manager.admit(1, (), reserve=3)
        first = manager.append([1], [3])
        pool.apply(first)
        pool.fill_tokens(1, range(3), first.slots)
        tail = manager.get_page_table(1).get_physical_id(1)
        manager.allocator.increment_ref(tail)
        second = manager.append([1], [1])
        assert second.copies.tolist() == [[tail, int(second.slots[0]) // 2]]
        pool.apply(second)
        pool.fill_tokens(1, [3], second.slots)
        assert pool.verify_tokens(1, range(4), manager.slot_mapping([1])) == 0
        assert pool.verify_tokens(1, [2], [tail * 2]) == 0
        assert not pool.bytes_of(tail)[16:].any()
        assert pool.tables.array[0, :2].tolist() == manager.get_page_table(1).entries.tolist()


def test_the_plan_is_read_before_apply_returns() -> None:
    pool = DevicePool(LAYOUT, 8, device=HostBackend(stepped=True))
    pool.fill_blocks(range(8), range(8))
    one = HandMadePlan(1, np.array([[0, 1]], np.int32), np.array([[2, 3, 4]], np.int32))
    pool.apply(one)
    one.copies[:] = [[5, 6]]
    one.updates[:] = [[0, 0, 7]]
    assert pool.verify_blocks(range(8), [0, 0, 2, 3, 4, 5, 6, 7]) == 0
    assert pool.tables.array[2, 3] == 4
    assert pool.tables.array.sum() == 4


def test_tables_grow_behind_the_work_that_reads_the_old_ones() -> None:
    """Growth keeps every entry, pads the rest, and lets no queued scatter write into freed memory."""
    backend = HostBackend(stepped=True)
    pool = DevicePool(OpaqueLayout(8, 1), 5000, device=backend, scratch_blocks=1)
    expected: dict[tuple[int, int], int] = {}
    for step, (row, column) in enumerate([(0, 0), (70, 1), (3, 64), (300, 4999), (299, 4000), (1000, 0)], start=1):
        pool.apply(plan(step, updates=[(row, column, step)]))
        expected[row, column] = step
    assert (pool.tables.rows, pool.tables.width) == (1024, 5000)
    pool.stream.synchronize()
    tables = pool.tables.array
    assert {(r, c): int(tables[r, c]) for r, c in np.argwhere(tables != 5000).tolist()} == expected
    pool.apply(plan(7, updates=[(1024, 0, 1)]))
    pool.stream.synchronize()
    assert pool.tables.array[[1000, 1024, 1025], 0].tolist() == [6, 1, 5000]
    pool.close()


def test_tables_of_a_pool_without_plans_are_empty() -> None:
    with DevicePool(LAYOUT, 8) as pool:
        assert (pool.tables.address, pool.tables.rows, pool.tables.width) == (0, 0, 0)
        assert pool.tables.array.shape == (0, 0)


def test_another_compute_stream_is_ordered_behind_the_former() -> None:
    backend = HostBackend(stepped=True)
    pool = DevicePool(LAYOUT, 8, device=backend)
    former, later = pool.stream, backend.stream()
    pool.fill_blocks([0], 5)
    pool.apply(plan(1, copies=[(0, 1)]), later)
    assert pool.stream is later
    assert not any(later.step() for _ in range(5))
    later.synchronize()
    assert former.pending == 0  # type: ignore[attr-defined]
    assert pool.verify_blocks([1], 5) == 0


def test_a_stream_of_another_backend_is_refused_and_changes_nothing() -> None:
    pool = DevicePool(LAYOUT, 8)
    own = pool.stream
    for call in (
        lambda: pool.apply(plan(1, copies=[(0, 1)]), object()),  # type: ignore[arg-type]
        lambda: pool.fence(object()),  # type: ignore[arg-type]
        lambda: pool.fill_blocks([0], 1, object()),  # type: ignore[arg-type]
    ):
        with pytest.raises(InvalidArgumentError):
            call()
    assert pool.stream is own
    pool.apply(plan(1, copies=[(0, 1)]))


def test_steps_are_marked_once_in_order_after_their_plan() -> None:
    pool = DevicePool(LAYOUT, 8, first_step=2)
    with pytest.raises(InvalidArgumentError, match="not applied"):
        pool.step_done(2)
    pool.apply(plan(2))
    with pytest.raises(InvalidArgumentError, match="not applied"):
        pool.step_done(3)
    with pytest.raises(InvalidArgumentError, match="step_done first"):
        pool.wait_step(2)
    pool.step_done(2)
    for step in (2, 1, 0):
        with pytest.raises(InvalidArgumentError, match="mark each once"):
            pool.step_done(step)
    assert pool.wait_step(1) == pool.finished_step() == 2
    assert pool.failure is None


def test_waiting_for_a_step_leaves_later_ones_in_flight() -> None:
    pool = DevicePool(LAYOUT, 8, device=HostBackend(stepped=True))
    assert isinstance(pool.stream, HostStream)
    for step in (1, 2, 3):
        pool.apply(plan(step, copies=[(0, step)]))
        pool.step_done(step)
    assert pool.finished_step() == 0
    assert pool.wait_step(2) == 2
    assert pool.stream.pending == 2
    assert pool.wait_step(1) == 2
    pool.stream.synchronize()
    assert pool.finished_step() == 3
