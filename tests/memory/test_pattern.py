"""The token-unique pattern: exact to the bit, the same everywhere, and unlike its neighbors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedkv.kernels import reference

from . import pattern_by_hand

INT64 = st.integers(-(2**63), 2**63 - 1)


def test_known_values() -> None:
    """Fixed for good: the bytes of a swapped-out sequence may be checked by another version, or by another device."""
    keys = reference.token_keys(np.array([0, 0, 1, -1]), np.array([0, 1, 0, 2**40]))
    assert [hex(int(key)) for key in keys] == [
        hex(pattern_by_hand.key(*pair)) for pair in ((0, 0), (0, 1), (1, 0), (-1, 2**40))
    ]
    # splitmix64 seeded with 0 starts with this value (its reference implementation prints it).
    assert int(reference.mix(np.array([0x9E3779B97F4A7C15], np.uint64))[0]) == 0xE220A8397B1DCDAF
    assert hex(int(keys[0])) == "0xa706dd2f4d197e6f"
    assert reference.pattern(keys[:1], 11).tobytes().hex() == "6f7e194d2fdd06a784fa63"


@given(INT64, st.integers(-1, 2**63 - 1), st.integers(1, 70))
def test_equals_the_pattern_by_hand(seq_id: int, position: int, token_bytes: int) -> None:
    keys = reference.token_keys(np.array([seq_id]), np.array([position]))
    assert reference.pattern(keys, token_bytes).tobytes() == pattern_by_hand.token(seq_id, position, token_bytes)


def test_no_two_words_are_equal() -> None:
    """A word at a wrong place, of any token of any of these sequences, is a word that differs."""
    seq_ids, positions = (grid.ravel() for grid in np.meshgrid(np.arange(-20, 60), np.arange(-1, 100)))
    words = reference.pattern(reference.token_keys(seq_ids, positions), 128).view(np.uint64)
    assert np.unique(words).size == words.size == 80 * 101 * 16
    assert words.all()


def test_positions_of_a_sequence_never_share_a_key() -> None:
    keys = reference.token_keys(np.array([12345]), np.arange(-1, 2**17))
    assert np.unique(keys).size == keys.size


@pytest.mark.parametrize("row_bytes", [1, 8, 12, 2**21, 2**21 + 5])
def test_work_is_cut_into_pieces_without_a_seam(row_bytes: int) -> None:
    """Batches larger than a piece; the rows not named stay as they were."""
    count = max(3, 3 * 2**21 // row_bytes // 2)
    rows = np.zeros((count + 2, row_bytes), np.uint8)
    indices = np.arange(count)[::-1].copy()
    keys = reference.block_keys(np.arange(count))
    reference.fill_rows(rows, indices, keys)
    assert reference.count_wrong(rows, indices, keys) == 0
    assert rows[0].tobytes() == pattern_by_hand.token(count - 1, -1, row_bytes)
    assert not rows[count:].any()
    rows[:count] ^= 1
    assert reference.count_wrong(rows, indices, keys) == count
