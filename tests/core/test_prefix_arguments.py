"""What `admit`, `lookup` and `publish` take for prefix reuse; the rest is refused and changes nothing."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from cases.refused import refused
from cases.reuse import Reuse
from pagedkv import KVCacheManager
from pagedkv.errors import InvalidArgumentError, PagedKVError, SequenceStateError

PROMPT = [1, 2, 3, 4, 5, 6, 7, 8, 9]


def _cache(**options: Any) -> Reuse:
    """N=16, B=4: PROMPT is cached, without a salt."""
    cache = Reuse(16, 4, **options)
    cache.once(PROMPT)
    return cache


FORMS: list[Callable[[list[int]], Any]] = [
    list,
    tuple,
    np.array,
    lambda tokens: np.array(tokens, np.int32),
    lambda tokens: np.array(tokens, np.uint8),
    lambda tokens: np.array(tokens, ">i4"),
    lambda tokens: np.array(tokens, object),
    lambda tokens: np.repeat(np.array(tokens, np.int32), 2)[::2],
    lambda tokens: np.array(tokens[::-1], np.int64)[::-1],
    lambda tokens: np.array(tokens, np.int32).data,
    lambda tokens: [np.int16(token) for token in tokens],
]


@pytest.mark.parametrize("stored", range(len(FORMS)))
def test_tokens_are_the_same_in_any_form(stored: int) -> None:
    cache = Reuse(16, 4)
    cache.admit(1, FORMS[stored](PROMPT[:6]))
    cache.append([1], [6])
    cache.append([1], [2], tokens=FORMS[stored](PROMPT[6:8]))
    cache.append([1], [4])
    cache.commit([1], [12], tokens=FORMS[stored]([9, 10, 11, 12]))
    for form in FORMS:
        assert cache.found(form([*PROMPT, 10, 11, 12, 0])) == 12


def test_arguments_are_neither_changed_nor_kept() -> None:
    cache = Reuse(16, 4)
    tokens, spans = np.array(PROMPT, np.int32), [(0, 2, b"x")]
    cache.admit(1, tokens, spans=spans)
    assert (tokens.tolist(), spans) == (PROMPT, [(0, 2, b"x")])
    tokens[:] = 0
    spans.clear()
    cache.append([1], [9])
    late = np.array([10, 11, 12], np.int32)
    cache.append([1], [3], tokens=late)
    late[:] = 0
    cache.commit([1], [12])
    assert cache.found([*PROMPT, 10, 11, 12, 0], spans=[(0, 2, b"x")]) == 12
    assert cache.found([0] * 13) == 0


@pytest.mark.parametrize("empty", [[], (), np.zeros(0), np.zeros(0, np.int32), range(0)])
@pytest.mark.parametrize("caching", [False, True])
def test_nothing_is_found_for_an_empty_prompt(empty: Any, caching: bool) -> None:
    manager = KVCacheManager(4, 4, prefix_caching=caching)
    assert manager.lookup(empty) == 0
    assert manager.lookup(empty, salt=b"t", max_hit_tokens=9) == 0
    assert manager.admit(1, empty, max_hit_tokens=9).cached_tokens == 0
    manager.check()


Point = namedtuple("Point", "start stop digest")

GOOD_SPANS: list[Any] = [
    (),
    [],
    [(0, 1, b"")],
    ((0, 1, b"a"), (1, 2, b"b")),
    [(0, 9, b"\0" * 100)],
    [(np.int64(0), np.uint8(4), b"a")],
    [Point(0, 4, b"a")],
    [(8, 9, b"a")],
]


@pytest.mark.parametrize("index", range(len(GOOD_SPANS)))
def test_spans_in_any_form(index: int) -> None:
    cache = Reuse(16, 4)
    cache.once(PROMPT, spans=GOOD_SPANS[index])
    assert cache.found(PROMPT, spans=[tuple(span) for span in GOOD_SPANS[index]]) == 8


BAD: list[dict[str, Any]] = [
    {"spans": [(0, 0, b"a")]},
    {"spans": [(3, 2, b"a")]},
    {"spans": [(-1, 2, b"a")]},
    {"spans": [(0, 10, b"a")]},
    {"spans": [(9, 10, b"a")]},
    {"spans": [(0, 2**31, b"a")]},
    {"spans": [(0, 2**63, b"a")]},
    {"spans": [(-(2**100), 2**100, b"a")]},
    {"spans": [(2**64, 2**64 + 2, b"a")]},
    {"spans": [(0, 4, b"a"), (3, 5, b"b")]},
    {"spans": [(4, 6, b"a"), (0, 2, b"b")]},
    {"spans": [(0, 4, b"a"), (0, 4, b"a")]},
    {"spans": [[0, 4, b"a"]]},
    {"spans": [(0, 4)]},
    {"spans": [(0, 4, b"a", 1)]},
    {"spans": [()]},
    {"spans": [None]},
    {"spans": [0]},
    {"spans": (0, 4, b"a")},
    {"spans": [(0, 4, "a")]},
    {"spans": [(0, 4, None)]},
    {"spans": [(0, 4, bytearray(b"a"))]},
    {"spans": [(0, 4, memoryview(b"a"))]},
    {"spans": [(0.0, 4, b"a")]},
    {"spans": [(0, 4.5, b"a")]},
    {"spans": [(False, 4, b"a")]},
    {"spans": [(0, True, b"a")]},
    {"spans": [("0", "4", b"a")]},
    {"spans": [(0, float("nan"), b"a")]},
    {"spans": None},
    {"spans": 7},
    {"spans": "text"},
    {"spans": b"bytes"},
    {"spans": {0: 4}},
    {"spans": {(0, 4, b"a")}},
    {"spans": iter([(0, 4, b"a")])},
    {"spans": np.zeros((0, 3))},
    {"salt": None},
    {"salt": "text"},
    {"salt": bytearray(b"t")},
    {"salt": memoryview(b"t")},
    {"salt": 7},
    {"salt": [1]},
    {"max_hit_tokens": -1},
    {"max_hit_tokens": -(2**100)},
    {"max_hit_tokens": 4.0},
    {"max_hit_tokens": True},
    {"max_hit_tokens": "4"},
    {"max_hit_tokens": float("nan")},
]


@pytest.mark.parametrize("caching", [False, True])
@pytest.mark.parametrize("index", range(len(BAD)))
def test_bad_options_change_nothing(index: int, caching: bool) -> None:
    """Checked without prefix caching too: a program must not break when it is turned on."""
    manager = _cache().manager if caching else KVCacheManager(16, 4)
    for call in (manager.lookup, partial(manager.admit, 1), partial(manager.try_admit, 1)):
        with refused(manager, InvalidArgumentError):
            call(PROMPT, **BAD[index])
    assert manager.lookup(PROMPT) == (8 if caching else 0)


@pytest.mark.parametrize("token", [2**31, -(2**31) - 1, 2**32 + 1, 2**63, 2**100, 1.5, None, True, "1"])
@pytest.mark.parametrize("caching", [False, True])
def test_tokens_are_32_bit_integers_everywhere(token: Any, caching: bool) -> None:
    """2^32 + 1 cut to 32 bits would be token 1: another prompt's block."""
    manager = KVCacheManager(16, 4, prefix_caching=caching)
    manager.admit(1, [1, 2, 3])
    manager.append([1], [3])
    for call in (
        lambda: manager.lookup([token, 2, 3, 4, 5]),
        lambda: manager.lookup(np.array([token, 2, 3, 4, 5], object)),
        lambda: manager.admit(2, [token, 2, 3, 4, 5]),
        lambda: manager.append([1], [1], tokens=[token]),
        lambda: manager.commit([1], [4], tokens=[token]),
    ):
        with refused(manager, InvalidArgumentError):
            call()


@pytest.mark.parametrize(
    "tokens", [[[1, 2]], 7, None, "12", b"12", {1, 2}, iter([1]), np.zeros((2, 2), np.int32), [0.5]]
)
def test_what_is_no_prompt(tokens: Any) -> None:
    cache = _cache()
    with refused(cache.manager, InvalidArgumentError):
        cache.lookup(tokens)


def test_options_are_keyword_only() -> None:
    cache = _cache()
    for call in (lambda: cache.lookup(PROMPT, b"t"), lambda: cache.admit(1, PROMPT, b"t")):
        with pytest.raises(TypeError):
            call()


def test_a_manager_with_an_index_publishes_by_itself() -> None:
    """A block marked by hand would be findable by nothing."""
    cache = _cache()
    cache.compute(1, PROMPT)
    for blocks in (cache.table(1), cache.table(1)[0], [0, 1], []):
        with refused(cache.manager, SequenceStateError):
            cache.allocator.publish(blocks)


def test_commit_beyond_capacity_publishes_nothing() -> None:
    cache = _cache()
    cache.admit(1, [11, 12, 13, 14, 15])
    with refused(cache.manager, InvalidArgumentError):
        cache.commit([1], [9])
    with refused(cache.manager, InvalidArgumentError):
        cache.commit([1], [5], tokens=[15])
    assert cache.found([11, 12, 13, 14, 15]) == 0


MESSAGES: list[tuple[Callable[[Reuse], object], str]] = [
    (lambda c: c.lookup(PROMPT, spans=[(0, 10, b"")]), r"span covers tokens 0 to 10 of 9; give spans"),
    (lambda c: c.lookup(PROMPT, spans=[(0, 5, b""), (4, 6, b"")]), r"tokens 4 to 6 of 9; .*overlap"),
    (lambda c: c.lookup(PROMPT, spans=[(0, 4)]), r"\(start, stop, digest\)"),
    (lambda c: c.lookup(PROMPT, spans=[(0, "4", b"")]), r"a span's stop is '4' \(str\); give an integer"),
    (lambda c: c.lookup(PROMPT, spans=7), r"spans must be a list of \(start, stop, digest\)"),
    (lambda c: c.lookup(PROMPT, salt="t"), r"salt .* must be bytes"),
    (lambda c: c.lookup(PROMPT, max_hit_tokens=-1), r"max_hit_tokens is negative; give"),
    (lambda c: c.lookup([2**31]), r"tokens holds 2147483648; token ids are 32-bit integers"),
    (lambda c: c.allocator.publish([0]), r"by itself; commit"),
]


@pytest.mark.parametrize("index", range(len(MESSAGES)))
def test_messages_say_what_was_asked_and_what_to_do(index: int) -> None:
    call, text = MESSAGES[index]
    with pytest.raises(PagedKVError, match=text):
        call(_cache())
