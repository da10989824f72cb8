"""H4: a span [start, stop) belongs to a block if and only if it covers a token of it, with its place in the span."""

from __future__ import annotations

import struct

import pytest

from .reuse import Make

PLACEHOLDER = 7
TOKENS = [PLACEHOLDER] * 9
A, B = b"image A", b"image B"
Spans = list[tuple[int, int, bytes]]


@pytest.mark.parametrize(
    ("start", "stop", "hit"),
    [
        (4, 8, 4),
        (2, 4, 0),
        (3, 5, 0),
        (0, 4, 0),
        (0, 1, 0),
        (3, 4, 0),
        (4, 5, 4),
        (7, 8, 4),
        (7, 9, 4),
        (8, 9, 8),
        (0, 9, 0),
    ],
)
def test_h4_one_image(make: Make, start: int, stop: int, hit: int) -> None:
    """B=4. Blocks that the image does not touch are found under any image."""
    cache = make(8, 4)
    cache.once(TOKENS, spans=[(start, stop, A)])
    assert cache.found(TOKENS, spans=[(start, stop, B)]) == hit
    assert cache.found(TOKENS, spans=[(start, stop, A)]) == 8
    assert cache.found(TOKENS) == hit
    assert cache.compute(1, TOKENS, spans=[(start, stop, B)]) == hit
    assert cache.found(TOKENS, spans=[(start, stop, A)]) == 8


def test_h4_two_images_change_places(make: Make) -> None:
    cache = make(8, 4)
    cache.once(TOKENS, spans=[(1, 3, A), (3, 5, B)])
    assert cache.found(TOKENS, spans=[(1, 3, A), (3, 5, B)]) == 8
    assert cache.found(TOKENS, spans=[(1, 3, B), (3, 5, A)]) == 0
    assert cache.found(TOKENS, spans=[(1, 3, A), (3, 5, A)]) == 0
    assert cache.found(TOKENS, spans=[(1, 3, A)]) == 0
    assert cache.found(TOKENS, spans=[(1, 5, A)]) == 0


OTHERS: list[tuple[Spans, int]] = [
    ([(2, 6, A)], 8),
    ([(2, 4, A), (4, 6, A)], 4),  # block 1: from the image's first token on, not from its third
    ([(2, 5, A)], 4),  # block 1: one token of it, not two
    ([(2, 7, A)], 4),
    ([(2, 4, A)], 4),
    ([(1, 5, A)], 0),
    ([(1, 6, A)], 0),
    ([(3, 6, A)], 0),
    ([(2, 3, A), (3, 6, A)], 0),
    ([(2, 6, A), (8, 9, B)], 8),
    ([(4, 6, A)], 0),
    ([], 0),
]


@pytest.mark.parametrize("index", range(len(OTHERS)))
def test_h4_the_place_in_the_image_counts(make: Make, index: int) -> None:
    """Stored under A over [2, 6): block 0 holds its first two tokens, block 1 its third and fourth."""
    spans, hit = OTHERS[index]
    cache = make(8, 4)
    cache.once(TOKENS, spans=[(2, 6, A)])
    assert cache.found(TOKENS, spans=spans) == hit


def test_h4_an_image_in_the_last_block_covers_what_is_generated_behind_it(make: Make) -> None:
    """The prompt ends in a block that is filled later: the image is part of what that block holds."""
    cache = make(8, 4)
    cache.compute(1, TOKENS, spans=[(8, 9, A)])
    cache.append([1], [3], tokens=[1, 2, 3])
    cache.commit([1], [12])
    longer = [*TOKENS, 1, 2, 3, 0]
    assert cache.found(longer, spans=[(8, 9, A)]) == 12
    assert cache.found(longer, spans=[(8, 9, B)]) == 8
    assert cache.found(longer) == 8


def test_h4_a_digest_that_contains_another_span(make: Make) -> None:
    """However the keys of a block are put together, two spans are not one span with a clever digest."""
    cache = make(8, 4)
    two: Spans = [(0, 1, b"x"), (1, 2, b"y")]
    for order in ("<", ">"):
        for fields in ((1, 2, 0, 1), (1, 2, 0), (1, 2, 1), (1, 2), (1, 1, 0, 1)):
            clever = b"x" + struct.pack(f"{order}{len(fields)}q", *fields) + b"y"
            assert cache.found(TOKENS, spans=[(0, 1, clever)]) == 0
            cache.once(TOKENS, spans=[(0, 1, clever)])
            assert cache.found(TOKENS, spans=two) == 0
    cache.once(TOKENS, spans=two)
    assert cache.found(TOKENS, spans=two) == 8
    assert cache.found(TOKENS, spans=[(0, 1, b"xy")]) == 0
    assert cache.found(TOKENS, spans=[(0, 2, b"xy")]) == 0


@pytest.mark.parametrize("size", [1, 2, 3, 4, 9, 16])
def test_h4_every_span_against_every_other(make: Make, size: int) -> None:
    """The hit is the blocks before the first one whose covered tokens differ."""
    cache = make(64, size)
    places = [(s, e) for s in range(9) for e in range(s + 1, 10)]
    for s, e in places:
        assert cache.manager.reset_prefix_cache()
        cache.once(TOKENS, spans=[(s, e, A)])
        for t, f in places:
            same = 0
            for first in range(0, 9 - size, size):
                pieces = [
                    (max(a, first), min(b, first + size), max(a, first) - a) if a < first + size and b > first else None
                    for a, b in ((s, e), (t, f))
                ]
                if pieces[0] != pieces[1]:
                    break
                same = first + size
            assert cache.lookup(TOKENS, spans=[(t, f, A)]) == same, (s, e, t, f)


def test_h4_a_cut_image_is_published_no_more(make: Make) -> None:
    """What stands where the rest of the image was is other tokens under no span: nobody may find it as an image."""
    cache = make(8, 4)
    cache.compute(1, TOKENS, spans=[(3, 7, A)])
    cache.truncate([1], [5])
    cache.append([1], [4], tokens=[7, 7, 7, 7])
    cache.commit([1], [9])
    cache.free([1])
    assert cache.found(TOKENS) == 0
    assert cache.found(TOKENS, spans=[(3, 7, A)]) == 4
    assert cache.found(TOKENS, spans=[(3, 5, A)]) == 4
    assert cache.found(TOKENS, spans=[(3, 4, A)]) == 4, "token 4 is still the image's"


def test_h4_an_image_that_ends_where_the_cut_block_starts_is_not_cut(make: Make) -> None:
    cache = make(8, 4)
    cache.compute(1, TOKENS, spans=[(2, 4, A)])
    cache.truncate([1], [5])
    cache.append([1], [4], tokens=[7, 1, 1, 1])
    cache.commit([1], [9])
    assert cache.found([*TOKENS[:6], 1, 1, 1], spans=[(2, 4, A)]) == 8


@pytest.mark.parametrize(("keep_blocks", "image"), [(False, 8), (True, 4)])
@pytest.mark.parametrize("length", [0, 4])
def test_h4_a_truncation_in_front_of_the_image_forgets_it(
    make: Make, length: int, keep_blocks: bool, image: int
) -> None:
    """The sequence goes on without the image. Its old block is found until it is written over, kept or not."""
    cache = make(8, 4)
    cache.compute(1, TOKENS, spans=[(5, 8, A)])
    cache.truncate([1], [length], keep_blocks=keep_blocks)
    cache.append([1], [9 - length], tokens=TOKENS[length:])
    cache.commit([1], [9])
    assert cache.found(TOKENS) == 8
    assert cache.found(TOKENS, spans=[(5, 8, A)]) == image


def test_h4_forks_have_the_images_of_their_parent(make: Make) -> None:
    cache = make(8, 4)
    cache.compute(1, TOKENS[:7], spans=[(5, 6, A)])
    cache.fork(1, [2, 3])
    cache.append([1, 2, 3], [2, 2, 2], tokens=[1, 1, 2, 2, 3, 3])
    cache.reorder([1, 2, 3], [1, 1, 2])
    cache.commit([1, 2, 3], [9, 9, 9])
    cache.free([3, 1, 2])
    hits = [cache.found([*TOKENS[:7], t, t], spans=[(5, 6, A)]) for t in (1, 2, 3)]
    assert hits == [4, 8, 8]
    assert [cache.found([*TOKENS[:7], t, t]) for t in (1, 2, 3)] == [4, 4, 4]
