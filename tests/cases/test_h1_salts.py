"""H1: a salt separates whole namespaces: each block of a chain belongs to the salt that it was computed under."""

from __future__ import annotations

import pytest

from .reuse import Make, span

PROMPT = span(1, 9)


def test_h1_tenants_and_adapters(make: Make) -> None:
    cache = make(8, 4)
    cache.once(PROMPT)
    assert [cache.found(PROMPT, salt=salt) for salt in (b"", b"adapter A", b"t1")] == [8, 0, 0]
    assert cache.compute(1, PROMPT, salt=b"t1") == 0
    cache.free([1])
    assert [cache.found(PROMPT, salt=salt) for salt in (b"t1", b"t2", b"")] == [8, 0, 8]
    stats = cache.get_stats()
    assert (stats.cached_blocks, stats.clean_blocks) == (4, 4)


def test_h1_an_empty_salt_is_none(make: Make) -> None:
    cache = make(8, 4)
    cache.once(PROMPT, salt=b"")
    assert (cache.found(PROMPT), cache.compute(1, PROMPT, salt=bytes(0))) == (8, 8)


SALTS = [b"", b"t", b"t1", b"t11", b"T1", b"\0", b"\0\0", b"t\0", b"t\x001", b"\xff", b"t" * 1000, b"t" * 1001]


@pytest.mark.parametrize("stored", range(len(SALTS)))
def test_h1_salts_that_begin_with_each_other(make: Make, stored: int) -> None:
    cache = make(8, 4)
    cache.once(PROMPT, salt=SALTS[stored])
    assert [cache.found(PROMPT, salt=salt) for salt in SALTS] == [8 * (salt == SALTS[stored]) for salt in SALTS]


def test_h1_all_salts_side_by_side(make: Make) -> None:
    cache = make(2 * len(SALTS) + 1, 4)
    for salt in SALTS:
        assert cache.compute(1, PROMPT, salt=salt) == 0
        cache.free([1])
    assert cache.cached == 2 * len(SALTS)
    for salt in SALTS:
        assert cache.compute(1, PROMPT, salt=salt) == 8
        cache.free([1])


def test_h1_equal_tokens_of_another_salt_are_evicted_alone(make: Make) -> None:
    """N=3, B=2: the same block under salts a and b; a's is the older one."""
    cache = make(3, 2)
    a = cache.once([1, 2, 3], salt=b"a")[0]
    b = cache.once([1, 2, 3], salt=b"b")[0]
    assert a != b
    assert cache.allocator.allocate(2).tolist()[1] == a
    assert (cache.found([1, 2, 3], salt=b"a"), cache.found([1, 2, 3], salt=b"b")) == (0, 2)


def test_h1_a_salt_whose_last_block_went_can_come_again(make: Make) -> None:
    cache = make(3, 2)
    for _ in range(5):
        cache.once(span(1, 5), salt=b"a")
        assert (cache.found(span(1, 5), salt=b"a"), cache.found(span(1, 5), salt=b"b")) == (4, 0)
        cache.once(span(11, 16), salt=b"b")
        assert (cache.found(span(1, 5), salt=b"a"), cache.found(span(11, 15), salt=b"b")) == (0, 4)


def test_h1_forks_and_late_ids_keep_the_salt(make: Make) -> None:
    cache = make(8, 4)
    cache.compute(1, [1, 2, 3], salt=b"t1")
    cache.fork(1, [2])
    cache.append([2], [2])
    cache.commit([2], [5], tokens=[4, 5])
    assert (cache.found(span(1, 5), salt=b"t1"), cache.found(span(1, 5))) == (4, 0)


def test_h1_register_sequence_has_no_salt(make: Make) -> None:
    cache = make(8, 4)
    cache.once(PROMPT, salt=b"t1")
    assert cache.register_sequence(1, PROMPT) == 0
    cache.free([1])
    cache.once(PROMPT)
    assert cache.register_sequence(2, PROMPT) == 8
