"""H3: a hash only says where to look. Whatever collides, a hit is the same tokens behind the same tokens."""

from __future__ import annotations

from itertools import product

import pytest

from .reuse import Make, Reuse

EQUAL = {"_constant_hash": True}


def test_h3_blocks_that_collide() -> None:
    cache = Reuse(8, 2, **EQUAL)
    cache.once([1, 2, 3])
    assert (cache.found([9, 8, 3]), cache.found([1, 2, 3])) == (0, 2)
    assert cache.compute(1, [1, 2, 5, 6, 9]) == 2
    cache.free([1])
    assert (cache.found([3, 4, 5, 6, 9]), cache.found([1, 2, 5, 6, 9])) == (0, 4)


def test_h3_equal_tokens_behind_another_head(make: Make) -> None:
    """[5, 6] behind [1, 2] and behind [3, 4] are two contents, and evicting one leaves the other."""
    cache = make(5, 2)
    cache.once([1, 2, 5, 6])
    assert cache.found([3, 4, 5, 6, 9]) == 0
    cache.once([3, 4, 5, 6])
    assert (cache.cached, cache.found([1, 2, 5, 6, 9]), cache.found([3, 4, 5, 6, 9])) == (4, 4, 4)
    cache.allocator.allocate(2)
    assert (cache.found([1, 2, 5, 6, 9]), cache.found([3, 4, 5, 6, 9])) == (2, 4)


@pytest.mark.parametrize("equal", [False, True])
def test_h3_every_chain_of_two_tokens(equal: bool) -> None:
    """All 2^6 prompts of three blocks over two tokens, one after another: only what was stored is hit."""
    cache = Reuse(200, 2, _constant_hash=equal)
    stored: set[tuple[int, ...]] = set()
    for prompt in product((0, 1), repeat=6):
        for other in product((0, 1), repeat=6):
            known = [n for n in (0, 2, 4, 6) if other[:n] in stored or n == 0]
            assert cache.lookup([*other, 9]) == max(known)
        cache.once(prompt)
        stored |= {prompt[:2], prompt[:4], prompt}
    # 4 + 16 + 64 contents, each computed once.
    assert (cache.cached, cache.get_stats().evictions) == (84, 0)


def test_h3_digests_that_end_alike(make: Make) -> None:
    """Two images whose digests share all but the first byte: blocks under them never stand for each other."""
    cache = make(8, 2)
    prompt = [1, 2, 7, 7, 5, 6, 9]
    first, second = b"\x01" + b"digest" * 5, b"\x02" + b"digest" * 5
    cache.once(prompt, spans=[(2, 4, first)])
    assert cache.found(prompt, spans=[(2, 4, first)]) == 6
    assert cache.found(prompt, spans=[(2, 4, second)]) == 2
    assert cache.found(prompt) == 2


def test_h3_digests_that_begin_alike(make: Make) -> None:
    cache = make(16, 2)
    digests = [b"", b"a", b"aa", b"a\0", b"\0", b"a" * 300]
    for stored in digests:
        assert cache.found([7, 7, 1], spans=[(0, 2, stored)]) == 0
        cache.once([7, 7, 1], spans=[(0, 2, stored)])
    assert [cache.found([7, 7, 1], spans=[(0, 2, digest)]) for digest in digests] == [2] * len(digests)
    assert (cache.cached, cache.found([7, 7, 1])) == (len(digests), 0)


def test_h3_a_salt_is_no_digest(make: Make) -> None:
    cache = make(8, 2)
    cache.once([7, 7, 1], salt=b"x")
    assert cache.found([7, 7, 1], spans=[(0, 2, b"x")]) == 0
    assert cache.found([7, 7, 1], salt=b"x", spans=[(0, 2, b"x")]) == 0
    cache.once([7, 7, 1], spans=[(0, 2, b"x")])
    assert cache.found([7, 7, 1], salt=b"x", spans=[(0, 2, b"x")]) == 0
