"""What `fork` takes for a parent and for children, and that everything else is refused and changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cases.refused import observable, refused, table
from pagedkv import KVCacheManager
from pagedkv.errors import InvalidArgumentError, PagedKVError, SequenceStateError


def _manager() -> KVCacheManager:
    """N=8, B=4, sequence 1 of six tokens and sequence 2 of three."""
    manager = KVCacheManager(8, 4)
    manager.admit(1, range(6))
    manager.admit(2, range(3))
    manager.append([1, 2], [6, 3])
    return manager


FORMS: list[Callable[[list[int]], Any]] = [
    list,
    tuple,
    np.array,
    lambda ids: np.array(ids, np.int8),
    lambda ids: np.repeat(np.array(ids, np.int64), 2)[::2],
    lambda ids: np.array(ids[::-1], ">i4")[::-1],
    lambda ids: np.array(ids, object),
    lambda ids: [np.int16(seq_id) for seq_id in ids],
]


@pytest.mark.parametrize("form", range(len(FORMS)))
def test_children_in_any_form(form: int) -> None:
    manager, parent = _manager(), FORMS[-1]([1])[0]
    manager.fork(parent, FORMS[form]([7, -3, 0]))
    assert manager.seq_ids().tolist() == [1, 2, 7, -3, 0]
    assert [table(manager, child) for child in (7, -3, 0)] == [table(manager, 1)] * 3
    manager.check()


def test_a_range_and_the_ends_of_int64() -> None:
    manager = _manager()
    manager.fork(1, range(10, 12))
    manager.fork(1, [2**63 - 1, -(2**63), 7 + 2**32])
    manager.fork(-(2**63), [7])
    assert manager.seq_lens([10, 11, 2**63 - 1, -(2**63), 7 + 2**32, 7]).tolist() == [6] * 6
    manager.check()


@pytest.mark.parametrize("empty", [[], (), range(0), np.zeros(0, np.int64), np.zeros(0)])
def test_no_children(empty: Any) -> None:
    manager = _manager()
    before = observable(manager)
    manager.fork(1, empty)
    assert observable(manager) == before
    with refused(manager, SequenceStateError):
        manager.fork(9, empty)


BAD_CHILDREN: list[tuple[Any, type[PagedKVError]]] = [
    ([1], SequenceStateError),  # the parent itself
    ([2], SequenceStateError),
    ([7, 2, 8], SequenceStateError),
    ([7, 7, 2], SequenceStateError),  # liveness is looked at first
    ([7, 7], InvalidArgumentError),
    ([7, 8, 7], InvalidArgumentError),
    ([7, 2**63], InvalidArgumentError),
    ([7, -(2**63) - 1], InvalidArgumentError),
    ([7, 2**64 + 1], InvalidArgumentError),
    (np.array([7, 2**63 + 1], np.uint64), InvalidArgumentError),
    ([7.0], InvalidArgumentError),
    ([7, 8.5], InvalidArgumentError),
    (np.array([7.0]), InvalidArgumentError),
    ([7, float("nan")], InvalidArgumentError),
    ([True], InvalidArgumentError),
    ([7, False], InvalidArgumentError),
    (np.array([True]), InvalidArgumentError),
    ([[7, 8]], InvalidArgumentError),
    (np.array([[7], [8]]), InvalidArgumentError),
    (np.array(7), InvalidArgumentError),
    (7, InvalidArgumentError),
    ("7", InvalidArgumentError),
    ([None], InvalidArgumentError),
    (None, InvalidArgumentError),
    ({7, 8}, InvalidArgumentError),
    (iter([7]), InvalidArgumentError),
]


@pytest.mark.parametrize("index", range(len(BAD_CHILDREN)))
def test_bad_children_change_nothing(index: int) -> None:
    children, error = BAD_CHILDREN[index]
    manager = _manager()
    with refused(manager, error):
        manager.fork(1, children)
    manager.fork(1, [7])
    assert (manager.row(7), manager.last_step) == (2, 1)


@pytest.mark.parametrize(("parent", "error"), [
    (9, SequenceStateError), (-1, SequenceStateError), (1 + 2**32, SequenceStateError), (2**63 - 1, SequenceStateError),
    (2**63, InvalidArgumentError), (2**64 + 1, InvalidArgumentError), (1.0, InvalidArgumentError),
    (True, InvalidArgumentError), ("1", InvalidArgumentError), (None, InvalidArgumentError),
    ([1], InvalidArgumentError), (np.array([1]), InvalidArgumentError),
])  # fmt: skip
def test_a_bad_parent_changes_nothing(parent: Any, error: type[PagedKVError]) -> None:
    manager = _manager()
    with refused(manager, error):
        manager.fork(parent, [7, 8])
    with refused(manager, error):
        manager.fork_sequence(parent, 7)


def test_the_messages_name_the_id_at_fault() -> None:
    manager = _manager()
    for parent, children, named in ((9, [7], "9"), (1, [7, 2], "2"), (1, [7, 8, 8], "8")):
        with pytest.raises(PagedKVError, match=rf"sequence {named} is "):
            manager.fork(parent, children)
