"""Which kernel of decode attention is launched, and into how many shares a batch is cut."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedkv.errors import InvalidArgumentError
from pagedkv.kernels.attention_shapes import (
    HEAD_DIMS,
    MARKS_BYTES,
    SMALLEST_SHARE,
    WORKSPACE_BYTES,
    DecodeShape,
    check_decode_shape,
    check_decode_sizes,
    decode_variant,
    division,
    shares_for,
)
from pagedkv.kernels.attention_tensor import TensorShape, tensor_variant
from pagedkv.kv_layout import KVLayout

H200_SLOTS = 132 * 3


@given(st.integers(1, 2**31 - 1), st.integers(0, 2**31 - 1))
def test_division_is_exact_and_fits_64_bits(block_size: int, position: int) -> None:
    magic, shift = division(block_size)
    near = [position, position // block_size * block_size, max(0, position // block_size * block_size - 1), 2**31 - 1]
    for number in near:
        assert number * magic < 2**64
        assert number * magic >> shift == number // block_size


def _shape(ratio: int, tokens: int = 1, head_dim: int = 128) -> DecodeShape:
    return DecodeShape(head_dim, ratio, 16, "bfloat16", "bfloat16", False, tokens)


@given(st.integers(1, 5000), st.integers(1, 64), st.integers(0, 2**21), st.integers(1, 2000))
def test_shares_fit_the_workspace_and_the_tokens(sequences: int, kv_heads: int, tokens: int, slots: int) -> None:
    for head_dim, ratio, drafts in product(HEAD_DIMS, (1, 5, 16), (1, 4)):
        shape = _shape(ratio, drafts, head_dim)
        shares = shares_for(shape, kv_heads, sequences, tokens, slots)
        assert 1 <= shares <= 65535
        assert shares == 1 or shares * kv_heads <= slots
        if shares > 1:
            lines = 2 * shares * kv_heads * ratio * drafts
            assert MARKS_BYTES + lines * (head_dim + 2) * 4 <= WORKSPACE_BYTES
            assert (shares - 1) * SMALLEST_SHARE * 64 < sequences * (tokens + 63)


@pytest.mark.parametrize(
    ("sequences", "tokens", "kv_heads"), [(64, 4096, 8), (256, 2048, 8), (8, 32768, 8), (1, 131072, 8), (64, 4096, 32)]
)
def test_nearly_every_slot_has_work(sequences: int, tokens: int, kv_heads: int) -> None:
    assert shares_for(_shape(4), kv_heads, sequences, tokens, H200_SLOTS) * kv_heads >= 0.95 * H200_SLOTS


def test_what_32_bits_cannot_count_is_an_error_that_says_so() -> None:
    check_decode_sizes(1, 2**37, 2**32 - 1)
    check_decode_sizes(0, 2**31, 1)
    for sizes in ((1, 2**37 + 1, 1), (2**20, 2**20, 1), (1, 1, 2**32)):
        with pytest.raises(InvalidArgumentError, match="narrower table or smaller blocks"):
            check_decode_sizes(*sizes)


def test_short_sequences_stay_whole() -> None:
    assert shares_for(_shape(4), 8, 1, SMALLEST_SHARE * 64, H200_SLOTS) == 1


@pytest.mark.parametrize(
    ("shape", "capability", "kernel"),
    [
        (DecodeShape(128, 4, 16, "bfloat16", "bfloat16", False), (8, 0), "decode_tensor"),
        (DecodeShape(64, 16, 8, "float16", "float16", False), (10, 0), "decode_tensor"),
        (DecodeShape(128, 4, 16, "float16", "float16", False), (7, 5), "decode_attention"),
        (DecodeShape(128, 4, 16, "float32", "float32", False), (9, 0), "decode_attention"),
        (DecodeShape(128, 4, 16, "float16", "int8", True), (9, 0), "decode_tensor"),
        (DecodeShape(128, 4, 16, "bfloat16", "float8_e4m3fn", False), (8, 0), "decode_tensor"),
        (DecodeShape(128, 4, 16, "float32", "float8_e4m3fn", True), (9, 0), "decode_attention"),
        (DecodeShape(256, 4, 16, "bfloat16", "bfloat16", False), (9, 0), "decode_tensor"),
        (DecodeShape(256, 4, 24, "bfloat16", "bfloat16", False), (9, 0), "decode_attention"),
    ],
)
def test_tensor_cores_take_16_and_8_bits(shape: DecodeShape, capability: tuple[int, int], kernel: str) -> None:
    assert decode_variant(shape, capability).kernel == kernel


@pytest.mark.parametrize(
    ("block_size", "kv_heads", "kernel"), [(1, 1, "attention"), (5, 3, "attention"), (2, 1, "tensor")]
)
def test_loads_of_16_bytes_are_for_vectors_that_begin_there(block_size: int, kv_heads: int, kernel: str) -> None:
    """Scales of 8 bytes a token and head, K's and V's, move the next layer by less than that."""
    layout = KVLayout(2, kv_heads, 64, "int8", block_size, scales=True)
    aligned = layout.part_view(1, "k", 3).offset % 16 == 0
    assert aligned == (kernel == "tensor")
    shape = DecodeShape(64, 4, block_size, "bfloat16", "int8", True, alignment=layout.alignment)
    assert decode_variant(shape, (9, 0)).kernel == f"decode_{kernel}"


@given(st.integers(1, 16), st.integers(1, 4), st.sampled_from(HEAD_DIMS), st.sampled_from(["float32", "bfloat16"]))
def test_every_query_has_a_cta(ratio: int, tokens: int, head_dim: int, dtype: str) -> None:
    variant = decode_variant(DecodeShape(head_dim, ratio, 16, dtype, dtype, False, tokens), (9, 0))
    columns = variant.macros["COLUMNS"] * variant.macros.get("GROUPS", 1)
    assert columns * variant.column_groups >= ratio * tokens
    assert columns * (variant.column_groups - 1) < ratio * tokens


@given(
    st.sampled_from(HEAD_DIMS),
    st.integers(1, 64),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from([8, 9, 10]),
)
def test_the_ctas_of_a_variant_fit_an_sm(
    head_dim: int, columns: int, small: bool, drafts: bool, whole: bool, short: bool, major: int
) -> None:
    shape = TensorShape(head_dim, columns, small, small, drafts, whole, short)
    variant = tensor_variant(shape, (major, 0))
    if variant is None:
        assert (head_dim, whole) == (256, False)
        return
    macros = variant.macros
    assert variant.columns == macros["COLUMNS"] * macros["GROUPS"]
    assert bool(variant.shared) == bool(macros["STAGES"])
    assert not variant.shared or major >= 9
    # 1 KiB of each CTA's is the system's, and a little more than that what all kernels have.
    assert macros["CTAS"] * (variant.shared + 1024 + 1200) <= 228 * 1024


def test_where_the_table_ends_early_more_ctas_run_at_a_time() -> None:
    long, short = (DecodeShape(128, 4, 16, "bfloat16", "bfloat16", False, short=short) for short in (False, True))
    assert decode_variant(long, (9, 0)).ctas == 2
    assert decode_variant(short, (9, 0)).ctas == 3


@pytest.mark.parametrize(
    ("head_dim", "v_head_dim", "ratio", "tokens"),
    [(96, 96, 1, 1), (128, 64, 1, 1), (128, 128, 17, 1), (64, 64, 0, 1), (64, 64, 1, 5), (64, 64, 1, 0)],
)
def test_a_shape_without_a_kernel_is_an_error_that_lists_what_there_is(
    head_dim: int, v_head_dim: int, ratio: int, tokens: int
) -> None:
    with pytest.raises(InvalidArgumentError, match=r"64, 128, 256, .* 1 to 16 query heads .* 1 to 4 query tokens"):
        check_decode_shape(DecodeShape(head_dim, ratio, 16, "float16", "float16", False, tokens), v_head_dim)
