"""What `reorder` takes for sequences and parents, and that everything else is refused and changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cases.refused import refused, table
from pagedkv import KVCacheManager
from pagedkv.errors import InvalidArgumentError, PagedKVError, SequenceStateError


def _beams() -> KVCacheManager:
    """N=12, B=4: sequence 1 of six tokens, its forks 2 and 3, each with a token of its own since then."""
    manager = KVCacheManager(12, 4)
    manager.admit(1, range(6))
    manager.append([1], [6])
    manager.fork(1, [2, 3])
    manager.append([1, 2, 3], [1, 1, 1])
    return manager


FORMS: list[Callable[[list[int]], Any]] = [
    list,
    tuple,
    np.array,
    lambda values: np.array(values, np.int32),
    lambda values: np.array(values, np.uint8),
    lambda values: np.repeat(np.array(values, np.int64), 2)[::2],
    lambda values: np.array(values[::-1], ">i4")[::-1],
    lambda values: np.array(values, object),
    lambda values: [np.int16(value) for value in values],
]


@pytest.mark.parametrize("parents", range(len(FORMS)))
@pytest.mark.parametrize("ids", range(len(FORMS)))
def test_both_in_any_form(ids: int, parents: int) -> None:
    manager = _beams()
    before = [table(manager, seq_id) for seq_id in (1, 2, 3)]
    plan = manager.reorder(FORMS[ids]([3, 1, 2]), FORMS[parents]([1, 1, 0]))
    assert plan.rows.tolist() == [2, 0, 1]
    assert [table(manager, seq_id) for seq_id in (3, 1, 2)] == [before[0], before[0], before[2]]
    manager.check()


def test_arguments_are_neither_changed_nor_kept() -> None:
    manager = _beams()
    ids, parents = np.array([1, 2, 3], np.int64), np.array([1, 1, 0], np.int64)
    plan = manager.reorder(ids, parents)
    assert (ids.tolist(), parents.tolist()) == ([1, 2, 3], [1, 1, 0])
    ids[:], parents[:] = 0, 0
    assert plan.rows.tolist() == [0, 1, 2]


@pytest.mark.parametrize("empty", [[], (), range(0), np.zeros(0, np.int32), np.zeros(0)])
def test_an_empty_batch_takes_a_step(empty: Any) -> None:
    manager = _beams()
    plan = manager.reorder(empty, empty)
    assert (plan.step, plan.served, plan.rows.size, plan.updates.size) == (manager.last_step, 0, 0, 0)


BAD: list[tuple[Any, Any, type[PagedKVError]]] = [
    ([1, 2, 3], [0, 1, 3], InvalidArgumentError),
    ([1, 2, 3], [-1, 1, 2], InvalidArgumentError),
    ([1, 2, 3], [0, 1, 2**31], InvalidArgumentError),
    ([1, 2, 3], [0, 2**32, 1], InvalidArgumentError),
    ([1, 2, 3], [0, 1, 2**63], InvalidArgumentError),
    ([1, 2, 3], [0, 1, -(2**64)], InvalidArgumentError),
    ([1, 2, 3], [0, 1, 2**100], InvalidArgumentError),
    ([1, 2, 3], np.array([0, 1, 2**63 + 1], np.uint64), InvalidArgumentError),
    ([1, 2, 3], [0, 1], InvalidArgumentError),
    ([1, 2, 3], [0, 1, 2, 0], InvalidArgumentError),
    ([1, 2, 3], [], InvalidArgumentError),
    ([], [0], InvalidArgumentError),
    ([1, 2, 3], [0.0, 1.0, 2.0], InvalidArgumentError),
    ([1, 2, 3], [0, 1.5, 2], InvalidArgumentError),
    ([1, 2, 3], [0, float("nan"), 2], InvalidArgumentError),
    ([1, 2, 3], [False, True, True], InvalidArgumentError),
    ([1, 2, 3], [0, True, 2], InvalidArgumentError),
    ([1, 2, 3], np.array([0, 1, 2], np.float32), InvalidArgumentError),
    ([1, 2, 3], np.array([[0, 1, 2]]), InvalidArgumentError),
    ([1, 2, 3], [[0], [1], [2]], InvalidArgumentError),
    ([1, 2, 3], 0, InvalidArgumentError),
    ([1, 2, 3], None, InvalidArgumentError),
    ([1, 2, 3], [0, None, 2], InvalidArgumentError),
    ([1, 2, 3], "012", InvalidArgumentError),
    ([1, 2, 3], iter([0, 1, 2]), InvalidArgumentError),
    ([1, 2, 1], [0, 1, 2], InvalidArgumentError),
    ([1, 2, 1], [2, 0, 0], InvalidArgumentError),
    ([1, 2, 9], [0, 1, 2], SequenceStateError),
    ([9, 2, 3], [1, 1, 2], SequenceStateError),
    ([1, 2, 3 + 2**32], [0, 1, 2], SequenceStateError),
    ([1, 2, 2**63], [0, 1, 2], InvalidArgumentError),
    ([1, 2, 2**64 + 3], [0, 1, 2], InvalidArgumentError),
    ([1.0, 2.0], [0, 1], InvalidArgumentError),
    ([True], [0], InvalidArgumentError),
    (np.array([[1, 2]]), [0, 1], InvalidArgumentError),
    (1, [0], InvalidArgumentError),
    (None, [0], InvalidArgumentError),
]


@pytest.mark.parametrize("index", range(len(BAD)))
def test_bad_arguments_change_nothing(index: int) -> None:
    ids, parents, error = BAD[index]
    manager = _beams()
    with refused(manager, error):
        manager.reorder(ids, parents)
    assert manager.reorder([2, 3], [1, 0]).step == 3, "and no mark of the refused call is left"


@pytest.mark.parametrize(("ids", "parents", "error"), [
    ([9, 9, 1], [0, 0], InvalidArgumentError),  # counts before ids
    ([1, 9, 1], [0, 7, 0], SequenceStateError),  # ids in order
    ([1, 1, 9], [0, 7, 0], InvalidArgumentError),
    ([1, 9], [0, 7], SequenceStateError),  # ids before parents
])  # fmt: skip
def test_the_first_fault_is_named(ids: list[int], parents: list[int], error: type[PagedKVError]) -> None:
    manager = _beams()
    with refused(manager, error):
        manager.reorder(ids, parents)


def test_the_message_names_the_place_and_the_sequence_at_fault() -> None:
    manager = _beams()
    with pytest.raises(InvalidArgumentError, match=r"parent_indices\[2\] is 3 for sequence 2\b.* 0 to 2"):
        manager.reorder([1, 3, 2], [0, 1, 3])
    with pytest.raises(InvalidArgumentError, match="3 sequence ids but 2 parent indices"):
        manager.reorder([1, 3, 2], [0, 1])
