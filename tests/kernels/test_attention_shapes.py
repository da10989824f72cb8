"""Which kernel of decode attention is launched, and into how many pieces a sequence is cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedkv.errors import InvalidArgumentError
from pagedkv.kernels.attention_shapes import (
    MOST_LINES,
    SMALLEST_PIECE,
    DecodeShape,
    check_decode_shape,
    decode_variant,
    division,
    pieces_for,
)

H200_SLOTS = 132 * 3


@given(st.integers(1, 2**31 - 1), st.integers(0, 2**31 - 1))
def test_division_is_exact_and_fits_64_bits(block_size: int, position: int) -> None:
    magic, shift = division(block_size)
    near = [position, position // block_size * block_size, max(0, position // block_size * block_size - 1), 2**31 - 1]
    for number in near:
        assert number * magic < 2**64
        assert number * magic >> shift == number // block_size


@given(st.integers(1, 5000), st.integers(1, 16), st.integers(0, 2**21), st.integers(1, 2000))
def test_pieces_fit_the_workspace_and_the_table(items: int, ratio: int, tokens: int, slots: int) -> None:
    pieces = pieces_for(items, items * ratio, tokens, slots)
    assert pieces >= 1
    if pieces > 1:
        assert pieces * items * ratio <= MOST_LINES
        assert (pieces - 1) * SMALLEST_PIECE < tokens


@pytest.mark.parametrize(
    ("items", "tokens"), [(64 * 8, 4096), (256 * 8, 2048), (8 * 8, 32768), (1 * 8, 131072), (64 * 32, 4096), (1, 8192)]
)
def test_the_last_round_is_nearly_full(items: int, tokens: int) -> None:
    """Or as full as pieces of at least the smallest size make it."""
    pieces = pieces_for(items, items * 4, tokens, H200_SLOTS)
    rounds = -(-items * pieces // H200_SLOTS)
    assert items * pieces >= 0.95 * rounds * H200_SLOTS or pieces == tokens // SMALLEST_PIECE


def test_a_long_table_is_cut_however_many_sequences_there_are() -> None:
    assert pieces_for(1000, 4000, 131_072, H200_SLOTS) == MOST_LINES // 4000
    assert pieces_for(1000, 40_000, 131_072, H200_SLOTS) == 1


def test_short_sequences_stay_whole() -> None:
    assert pieces_for(8, 32, SMALLEST_PIECE, H200_SLOTS) == 1


@pytest.mark.parametrize(
    ("shape", "capability", "kernel"),
    [
        (DecodeShape(128, 4, 16, "bfloat16", "bfloat16", False), (8, 0), "decode_tensor"),
        (DecodeShape(64, 16, 8, "float16", "float16", False), (10, 0), "decode_tensor"),
        (DecodeShape(128, 4, 16, "float16", "float16", False), (7, 5), "decode_attention"),
        (DecodeShape(128, 4, 16, "float32", "float32", False), (9, 0), "decode_attention"),
        (DecodeShape(128, 4, 16, "float16", "int8", True), (9, 0), "decode_attention"),
    ],
)
def test_tensor_cores_take_16_bits(shape: DecodeShape, capability: tuple[int, int], kernel: str) -> None:
    assert decode_variant(shape, capability).kernel == kernel


@given(st.integers(1, 16), st.sampled_from(["float32", "bfloat16"]))
def test_every_query_head_has_a_cta(ratio: int, dtype: str) -> None:
    variant = decode_variant(DecodeShape(64, ratio, 16, dtype, dtype, False), (9, 0))
    assert variant.macros["HEADS"] * variant.head_groups >= ratio
    assert variant.macros["HEADS"] * (variant.head_groups - 1) < ratio


@pytest.mark.parametrize(("head_dim", "v_head_dim", "ratio"), [(96, 96, 1), (128, 64, 1), (128, 128, 17), (64, 64, 0)])
def test_a_shape_without_a_kernel_is_an_error_that_lists_what_there_is(
    head_dim: int, v_head_dim: int, ratio: int
) -> None:
    with pytest.raises(InvalidArgumentError, match=r"head size 64 or 128, .* 1 to 16 query heads a KV head"):
        check_decode_shape(DecodeShape(head_dim, ratio, 16, "float16", "float16", False), v_head_dim)
