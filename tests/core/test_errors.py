"""Every error: its place in the family, its figures, its message, its way through a pickle."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable

import pytest

from pagedkv import KVCacheManager, errors
from pagedkv.errors import (
    BackendError,
    InvalidArgumentError,
    NeverFitsError,
    OutOfBlocksError,
    PagedKVError,
    SequenceStateError,
    TraceError,
)


def _manager() -> KVCacheManager:
    """Three blocks of four tokens: sequence 11 holds two, one pending, none free."""
    manager = KVCacheManager(3, 4, max_tokens=100)
    for seq_id, tokens in ((11, 8), (12, 1)):
        manager.admit(seq_id, range(tokens))
        manager.append([seq_id], [tokens])
    manager.free([12], after=manager.last_step)
    return manager


def test_family() -> None:
    for name in errors.__all__:
        assert issubclass(getattr(errors, name), PagedKVError)
    assert issubclass(InvalidArgumentError, ValueError)
    assert not issubclass(OutOfBlocksError, NeverFitsError)
    assert not issubclass(NeverFitsError, OutOfBlocksError), "who waits on the one must not wait on the other"
    assert not issubclass(PagedKVError, (ValueError, RuntimeError))


def test_figures() -> None:
    manager = _manager()
    with pytest.raises(OutOfBlocksError) as transient:
        manager.append([11], [1])
    assert (transient.value.needed, transient.value.available, transient.value.pending) == (1, 0, 1)
    with pytest.raises(NeverFitsError) as permanent:
        manager.append([11], [5])
    assert (permanent.value.needed, permanent.value.total) == (4, 3)


# What was asked, what there is, and (as a verb) what to do.
MESSAGES: list[tuple[Callable[[KVCacheManager], object], list[str], str]] = [
    (lambda m: m.append([11], [1]), ["1", "0", "1"], r"free|retire"),
    (lambda m: m.append([11], [5]), ["11", "4", "3"], r"reject|larger"),
    (lambda m: m.admit(20, range(13)), ["20", "4", "3"], r"reject|larger"),
    (lambda m: m.admit(20, range(2)), ["1", "0"], r"free|retire"),
    (lambda m: m.admit(11, [1]), ["11"], r"free|another"),
    (lambda m: m.append([11], [93]), ["11", "101", "100"], r"finish|larger"),
    (lambda m: m.append([7], [1]), ["7"], r"admit|register"),
    (lambda m: m.append([11, 11], [0, 0]), ["11"], r"once"),
    (lambda m: m.append([11], [-3]), ["11", "-3"], r"negative"),
    (lambda m: m.append([11], [1, 1]), ["1", "2"], r"give"),
    (lambda m: m.append([11], ["x"]), ["counts"], r"give integers"),
    (lambda m: m.truncate([11], [9]), ["11", "9", "8"], r"append"),
    (lambda m: m.commit([11], [9]), ["11", "9", "8"], r"reserve|append"),
    (lambda m: m.commit([11], [8], tokens=[1]), ["1", "0"], r"give"),
    (lambda m: m.retire(9), ["9", "2"], r"planned"),
    (lambda m: m.free([11], after=9), ["9", "2"], r"pass"),
    (lambda m: m.block_table([11], width=1), ["1", "2"], r"give"),
    (lambda m: m.slot_mapping([11], stops=[9]), ["9", "8", "11"], r"ask"),
    (lambda m: m.allocator.allocate(4), ["4", "3"], r"larger"),
    (lambda m: m.allocator.allocate(1), ["1", "0"], r"free|retire"),
    (lambda m: m.allocator.free(0), ["0"], r"once"),
    (lambda m: m.allocator.get_ref_count(9), ["9", "2"], r"has blocks"),
    (lambda m: KVCacheManager(0, 4), ["num_blocks", "0"], r"1 to"),
    (lambda m: KVCacheManager(2**31 - 1, 4), ["num_blocks", str(2**31 - 1)], r"1 to"),
    (lambda m: KVCacheManager(4, 0), ["block_size", "0"], r"1 to"),
    (lambda m: KVCacheManager(4, 4, watermark=4), ["watermark", "4"], r"smaller"),
    (lambda m: KVCacheManager(4, 4, max_tokens=0), ["max_tokens", "0"], r"give"),
]


@pytest.mark.parametrize("index", range(len(MESSAGES)))
def test_messages_say_what_was_asked_what_there_is_and_what_to_do(index: int) -> None:
    call, figures, advice = MESSAGES[index]
    with pytest.raises(PagedKVError) as caught:
        call(_manager())
    text = str(caught.value)
    for figure in figures:
        assert re.search(rf"(?<![\w.]){re.escape(figure)}(?!\w)", text), f"{figure!r} is not in {text!r}"
    assert re.search(advice, text), text


def test_pickles_keep_the_figures() -> None:
    """Errors cross process borders in tensor-parallel groups and in test runners."""
    manager = _manager()
    calls: list[Callable[[], object]] = [
        lambda: manager.append([11], [1]),
        lambda: manager.append([11], [5]),
        lambda: manager.append([11], [-1]),
        lambda: manager.append([7], [1]),
    ]
    for call in calls:
        with pytest.raises(PagedKVError) as caught:
            call()
        again = pickle.loads(pickle.dumps(caught.value))
        assert type(again) is type(caught.value)
        assert str(again) == str(caught.value)
        assert vars(again) == vars(caught.value)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            BackendError("OUT_OF_MEMORY", "no memory left", "cuMemAlloc"),
            "cuMemAlloc failed with OUT_OF_MEMORY: no memory left",
        ),
        (TraceError("no such column", "a.csv"), "a.csv: no such column"),
        (TraceError("is negative", "a.csv", 3, "ContextTokens"), "a.csv, row 3, column ContextTokens: is negative"),
    ],
)
def test_errors_made_in_python(error: PagedKVError, text: str) -> None:
    assert str(error) == text
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), text, vars(error))


def test_sequence_state_is_not_an_argument_error() -> None:
    with pytest.raises(SequenceStateError) as caught:
        _manager().append([7], [1])
    assert not isinstance(caught.value, ValueError)
