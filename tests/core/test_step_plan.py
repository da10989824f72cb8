"""`StepPlan`: what it holds, how it travels, and what hostile bytes do to it (nothing)."""

from __future__ import annotations

import copy
import gc
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedkv import KVCacheManager, StepPlan
from pagedkv.errors import InvalidArgumentError

PARTS = ("slots", "rows", "lengths", "copies", "updates")


def _plan() -> StepPlan:
    """Two sequences, one copy, several updates."""
    manager = KVCacheManager(16, 4)
    for seq_id in (1, 2):
        manager.admit(seq_id, range(6))
    manager.append([1, 2], [6, 6])
    manager.allocator.increment_ref(manager.get_page_table(2).entries)
    return manager.append([2, 1], [3, 1])


def _parts(plan: StepPlan) -> dict[str, Any]:
    return {name: getattr(plan, name).tolist() for name in PARTS} | {"step": plan.step, "served": plan.served}


def test_shapes_and_types() -> None:
    plan = _plan()
    assert (plan.step, plan.served) == (2, 2)
    assert {name: getattr(plan, name).dtype.name for name in PARTS} == {
        "slots": "int64",
        "rows": "int32",
        "lengths": "int32",
        "copies": "int32",
        "updates": "int32",
    }
    shapes = [getattr(plan, name).shape for name in PARTS]
    assert shapes == [(4,), (2,), (2,), (1, 2), (2, 3)]
    assert plan.rows.tolist() == [1, 0]
    assert plan.lengths.tolist() == [9, 7]


def test_empty_parts_keep_their_shape() -> None:
    manager = KVCacheManager(4, 4)
    plan = manager.append([], [])
    assert (plan.slots.shape, plan.rows.shape, plan.lengths.shape) == ((0,), (0,), (0,))
    assert (plan.copies.shape, plan.updates.shape) == ((0, 2), (0, 3))
    assert (plan.slots.dtype.name, plan.updates.dtype.name) == ("int64", "int32")


def test_arrays_are_views_that_keep_the_plan_alive() -> None:
    plan = _plan()
    slots, expected = plan.slots, plan.slots.tolist()
    assert np.shares_memory(slots, plan.slots)
    del plan
    gc.collect()
    assert slots.tolist() == expected
    assert slots.flags.writeable
    assert slots.flags.c_contiguous


def test_a_plan_outlives_its_manager() -> None:
    plan = _plan()
    before = _parts(plan)
    gc.collect()
    assert _parts(plan) == before


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickle(protocol: int) -> None:
    plan = _plan()
    assert _parts(pickle.loads(pickle.dumps(plan, protocol))) == _parts(plan)


def test_copies_are_independent() -> None:
    plan = _plan()
    for other in (StepPlan.from_bytes(plan.to_bytes()), copy.copy(plan), copy.deepcopy(plan)):
        assert _parts(other) == _parts(plan)
        other.slots[0] = 99
        assert plan.slots[0] != 99


def test_equal_plans_have_equal_bytes() -> None:
    """So that a tensor-parallel group can compare what its members planned."""
    assert _plan().to_bytes() == _plan().to_bytes()


def test_every_truncation_is_refused() -> None:
    data = _plan().to_bytes()
    for size in range(len(data)):
        with pytest.raises(InvalidArgumentError):
            StepPlan.from_bytes(data[:size])
    with pytest.raises(InvalidArgumentError):
        StepPlan.from_bytes(data + b"\0")


@pytest.mark.parametrize(
    "data", [None, 7, "plan", bytearray(b"x" * 64), memoryview(b"x" * 64), [1, 2], b"", b"\0" * 4096]
)
def test_what_is_no_plan(data: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        StepPlan.from_bytes(data)


@given(st.binary(max_size=400))
def test_random_bytes(data: bytes) -> None:
    with pytest.raises(InvalidArgumentError):
        StepPlan.from_bytes(data)


@given(st.data())
def test_damaged_bytes_are_refused_or_read_within_their_bounds(data: st.DataObject) -> None:
    """Counts near 2^63 must not overflow into a size that seems to fit."""
    raw = bytearray(_plan().to_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        if data.draw(st.booleans()):
            raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
        else:
            word = data.draw(st.sampled_from((0, 1, -1, 2**31, 2**40, 2**62, 2**63 - 1, -(2**63), 2**61)))
            at = 8 * data.draw(st.integers(0, 6))
            raw[at : at + 8] = word.to_bytes(8, "little", signed=True)
    try:
        plan = StepPlan.from_bytes(bytes(raw))
    except InvalidArgumentError:
        return
    parts = _parts(plan)
    assert len(parts["rows"]) == len(parts["lengths"]) == plan.served
    assert StepPlan.from_bytes(plan.to_bytes()).to_bytes() == plan.to_bytes()
