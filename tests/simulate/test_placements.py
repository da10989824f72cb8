"""Counting, first fit and buddy one by one: addresses, refusals, and that everything given back merges again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedkv.simulate.reservation.buddy import Buddy
from pagedkv.simulate.reservation.counting import Counting
from pagedkv.simulate.reservation.first_fit import FirstFit
from pagedkv.simulate.reservation.lengths import next_power_of_two
from pagedkv.simulate.reservation.systems import PLACEMENTS


@pytest.mark.parametrize(("number", "power"), [(1, 1), (2, 2), (3, 4), (4, 4), (5, 8), (1024, 1024), (1025, 2048)])
def test_next_power_of_two(number: int, power: int) -> None:
    assert next_power_of_two(number) == power


def test_counting_needs_no_place() -> None:
    pool = Counting(10)
    assert (pool.take(6), pool.take(5), pool.take(4), pool.take(1)) == (0, None, 0, None)
    pool.give(0, 6)
    assert pool.take(6) == 0


def test_first_fit_takes_the_lowest_gap_that_is_long_enough() -> None:
    pool = FirstFit(100)
    starts = [pool.take(tokens) for tokens in (10, 20, 30, 40)]
    assert starts == [0, 10, 30, 60]
    pool.give(60, 40)
    pool.give(10, 20)
    assert pool.take(21) == 60  # 60 tokens are free, but the lower gap is too short
    assert pool.take(20) == 10
    assert pool.take(20) is None


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (0, 2, 1), (1, 0, 2)])
def test_first_fit_merges_with_both_sides(order: tuple[int, ...]) -> None:
    pool = FirstFit(9)
    starts = [pool.take(3) for _ in range(3)]
    assert starts == [0, 3, 6]
    for at in order:
        pool.give(3 * at, 3)
    assert pool.take(9) == 0


def test_buddy_takes_the_smallest_sufficient_length_and_keeps_the_low_half() -> None:
    pool = Buddy(2 * 128 + 32 + 16, longest=128)  # arenas of 8 units at 0 and 128, a rest of 2 at 256 and of 1 at 288
    assert pool.take(1) == 288
    assert pool.take(16) == 256  # halves the rest of two
    assert pool.take(16) == 272
    assert pool.take(17) == 0
    assert pool.take(33) == 64
    assert pool.take(128) == 128
    assert pool.take(65) is None
    assert pool.take(32) == 32


def test_buddies_merge_up_to_the_arena_and_not_beyond() -> None:
    pool = Buddy(4 * 64, longest=64)
    starts = [pool.take(16) for _ in range(16)]
    assert starts == [16 * unit for unit in range(16)]
    for start in starts:
        assert start is not None
        pool.give(start, 16)
    assert [pool.take(64) for _ in range(5)] == [0, 64, 128, 192, None]
    assert pool.largest == 64


def test_a_pool_smaller_than_the_longest_sequence_is_cut_greedily() -> None:
    pool = Buddy(13 * 16 + 15, longest=4096)
    assert pool.largest == 128
    assert [pool.take(128), pool.take(64), pool.take(16), pool.take(1)] == [0, 128, 192, None]
    assert Buddy(15, longest=4096).largest == 0


def test_an_enormous_pool_costs_no_memory() -> None:
    pool = Buddy(2**40, longest=16)
    assert [pool.take(16) for _ in range(3)] == [0, 16, 32]
    pool.give(16, 16)
    assert pool.take(16) == 16


@given(
    name=st.sampled_from(sorted(PLACEMENTS)),
    pool=st.integers(1, 300),
    longest=st.integers(1, 100),
    wanted=st.lists(st.tuples(st.integers(1, 100), st.integers(0, 9)), max_size=40),
)
def test_nothing_overlaps_and_everything_comes_back(
    name: str, pool: int, longest: int, wanted: list[tuple[int, int]]
) -> None:
    placement = PLACEMENTS[name](pool, longest)
    held: list[tuple[int, int]] = []
    for asked, choice in wanted:
        tokens = min(asked, longest)
        start = placement.take(tokens)
        if start is not None:
            held.append((start, tokens))
        elif held:
            placement.give(*held.pop(choice % len(held)))
        assert sum(length for _, length in held) <= pool
        if name != "counting":
            places = [place for begin, length in held for place in range(begin, begin + length)]
            assert len(set(places)) == len(places)
            assert all(0 <= place < pool for place in places)
    for start, tokens in held:
        placement.give(start, tokens)
    if placement.largest:
        assert placement.take(placement.largest) == 0
