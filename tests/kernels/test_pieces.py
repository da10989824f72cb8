"""Where rows in pieces lie, as kernels and their NumPy twins are told."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory import pattern_by_hand
from pagedkv import KVLayout
from pagedkv.errors import InvalidArgumentError
from pagedkv.kernels import reference
from pagedkv.kernels.pieces import PIECES_WORDS, pieces_argument, row_extents, row_views
from pagedkv.layout import Extents


def test_the_argument_has_the_order_of_the_struct() -> None:
    extents = KVLayout(3, 2, 8, "int8", 4, order="layer", v_head_dim=4).extents(10)
    words = pieces_argument(extents)
    assert (words.dtype.name, len(words)) == ("uint64", PIECES_WORDS)
    assert words.tolist() == [64, 32, 0, 0, 0, 640, 0, 0, 960, 3, 2]
    with pytest.raises(ValueError, match="read-only"):
        words[0] = 1  # it is kept, and used again


def test_numbers_beyond_32_bits_stay_whole() -> None:
    words = pieces_argument(Extents(2, 2**41, (2**33, 2**34), (0, 2**40)))
    assert words.tolist() == [2**33, 2**34, 0, 0, 0, 2**40, 0, 0, 2**41, 2, 2]


def test_more_sizes_than_the_struct_has_room_for() -> None:
    assert pieces_argument(Extents(1, 16, (4,) * 4, (0, 4, 8, 12)))[-1] == 4
    with pytest.raises(InvalidArgumentError, match="5 sizes"):
        pieces_argument(Extents(1, 20, (4,) * 5, (0, 4, 8, 12, 16)))


@given(st.integers(1, 4), st.integers(1, 5), st.lists(st.integers(1, 9), min_size=1, max_size=4), st.integers(1, 5))
def test_tokens_are_equal_shares_of_their_block(groups: int, tokens: int, shares: list[int], blocks: int) -> None:
    """Every byte of a pool belongs to one token, and to the block that the token is in."""
    sizes = tuple(share * tokens for share in shares)
    starts = tuple(blocks * sum(sizes[:i]) for i in range(len(sizes)))
    extents = Extents(groups, blocks * sum(sizes), sizes, starts)
    pool = np.zeros(groups * blocks * sum(sizes), np.uint8)
    for view in row_views(pool, row_extents(extents, tokens), blocks * tokens):
        np.add(view, 1 + np.arange(blocks * tokens, dtype=np.uint8)[:, None], out=view)
    for view in row_views(pool, row_extents(extents, 1), blocks):
        for block, row in enumerate(view):
            assert {(byte - 1) // tokens for byte in row.tolist()} == {block}
            assert np.bincount(row)[1 + block * tokens :].tolist() == [view.shape[1] // tokens] * tokens


@pytest.mark.parametrize("row_bytes", [3, 40, 2**20 + 9])
def test_a_row_in_pieces_has_one_pattern_and_counts_once(row_bytes: int) -> None:
    """Rows enough for several batches."""
    count = max(4, 3 * 2**20 // row_bytes)
    cuts = [0, 1, row_bytes // 2, row_bytes]
    pieces = [np.zeros((count + 1, end - start), np.uint8) for start, end in pairwise(cuts)]
    indices, keys = np.arange(count)[::-1].copy(), reference.block_keys(np.arange(count))
    indices[1] = -1
    reference.fill_pieces(pieces, indices, keys)
    held = b"".join(piece[0].tobytes() for piece in pieces)
    assert held == pattern_by_hand.token(count - 1, -1, row_bytes)
    assert not any(piece[[count - 2, count]].any() for piece in pieces)
    assert reference.count_wrong_pieces(pieces, indices, keys) == 0
    for piece in pieces:
        piece[0] ^= 1
        piece[count] ^= 1
    pieces[-1][1, -1] ^= 1
    assert reference.count_wrong_pieces(pieces, indices, keys) == 2
