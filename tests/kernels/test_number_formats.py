"""Number formats in NumPy: every code of the small ones, rounding at every midpoint, saturation, NaN."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from pagedkv.dtypes import DTYPES
from pagedkv.kernels.number_formats import from_float32, to_float32

# Bits of the exponent and of the mantissa, from the formats' definitions.
_SMALL = {"float8_e4m3fn": (4, 3), "float8_e5m2": (5, 2), "float16": (5, 10), "bfloat16": (8, 7)}
_NAMES = [name for name in DTYPES if name != "float32"]


def _value(name: str, code: int) -> float:
    """A code's value by the definition of the format."""
    exponent_bits, mantissa_bits = _SMALL[name]
    sign = -1.0 if code >> (exponent_bits + mantissa_bits) else 1.0
    exponent = code >> mantissa_bits & (1 << exponent_bits) - 1
    fraction = code & (1 << mantissa_bits) - 1
    bias = (1 << exponent_bits - 1) - 1
    if name == "float8_e4m3fn":
        if exponent == 15 and fraction == 7:
            return np.nan
    elif exponent == (1 << exponent_bits) - 1:
        return np.nan if fraction else sign * np.inf
    if exponent == 0:
        return float(sign * Fraction(fraction, 1 << mantissa_bits) * Fraction(2) ** (1 - bias))
    return float(sign * (1 + Fraction(fraction, 1 << mantissa_bits)) * Fraction(2) ** (exponent - bias))


def _codes(name: str) -> np.ndarray:
    count = 1 << DTYPES[name].bits
    return np.arange(count).astype(f"uint{DTYPES[name].bits}").view(DTYPES[name].storage)


@pytest.mark.parametrize("name", _SMALL)
def test_every_code_has_the_value_of_its_definition(name: str) -> None:
    codes = _codes(name)
    found = to_float32(codes, name)
    wanted = np.array([_value(name, code) for code in range(len(codes))], np.float32)
    np.testing.assert_array_equal(found, wanted)
    negative = (np.arange(len(codes)) >= len(codes) // 2) & ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found) & ~np.isnan(wanted), negative)
    if name != "bfloat16":
        assert set(found[np.isnan(wanted)].view(np.uint32).tolist()) == {0x7FFFFFFF}


@pytest.mark.parametrize("name", _NAMES)
def test_every_finite_code_comes_back(name: str) -> None:
    codes = _codes(name)
    values = to_float32(codes, name)
    kept = np.isfinite(values) & (np.abs(values) <= DTYPES[name].largest)
    np.testing.assert_array_equal(from_float32(values, name)[kept], codes[kept])


@pytest.mark.parametrize("name", _NAMES)
def test_midpoints_go_to_even_and_their_neighbors_to_the_nearer(name: str) -> None:
    codes = _codes(name)
    singles = to_float32(codes, name)
    inside = np.isfinite(singles) & ~np.signbit(singles) & (singles <= DTYPES[name].largest)
    codes, values = codes[inside].view(f"u{codes.itemsize}"), singles[inside].astype(np.float64)
    lower, upper = codes[:-1], codes[1:]
    middle = ((values[:-1] + values[1:]) / 2).astype(np.float32)
    assert np.all(middle.astype(np.float64) * 2 == values[:-1] + values[1:]), "float32 holds every midpoint"
    even = np.where(lower % 2 == 0, lower, upper)
    below, above = np.nextafter(middle, np.float32(0)), np.nextafter(middle, np.float32(np.inf))
    for given, wanted in ((middle, even), (below, lower), (above, upper)):
        np.testing.assert_array_equal(from_float32(given, name).view(wanted.dtype), wanted)
        negative = -wanted if name == "int8" else wanted | np.array(1 << DTYPES[name].bits - 1, wanted.dtype)
        np.testing.assert_array_equal(from_float32(-given, name).view(wanted.dtype), negative)


@pytest.mark.parametrize("name", _NAMES)
def test_what_is_too_large_becomes_the_largest_and_nan_stays(name: str) -> None:
    largest = np.float32(DTYPES[name].largest)
    beyond = np.array(
        [largest, np.nextafter(largest, np.float32(np.inf)), np.inf, np.finfo(np.float32).max], np.float32
    )
    np.testing.assert_array_equal(to_float32(from_float32(beyond, name), name), np.full(4, largest))
    np.testing.assert_array_equal(to_float32(from_float32(-beyond, name), name), np.full(4, -largest))
    payloads = np.array([0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFFFFFFF], np.uint32).view(np.float32)
    found = from_float32(payloads, name)
    wanted = 0 if name == "int8" else (1 << DTYPES[name].bits - 1) - 1
    assert found.view(f"u{found.itemsize}").tolist() == [wanted] * 4


def test_the_least_numbers_of_float32_become_zero_with_their_sign() -> None:
    least = np.array([1, 0x80000001, 0, 0x80000000, 0x007FFFFF], np.uint32).view(np.float32)
    for name in ("float8_e4m3fn", "float8_e5m2", "float16"):
        sign = 1 << DTYPES[name].bits - 1
        codes = from_float32(least, name)
        assert codes.view(f"u{codes.itemsize}").tolist() == [0, sign, 0, sign, 0]


def test_float32_keeps_its_bits() -> None:
    values = np.array([0x7F800001, 0xFF800000, 1], np.uint32).view(np.float32)
    for change in (from_float32, to_float32):
        assert change(values, "float32").view(np.uint32).tolist() == values.view(np.uint32).tolist()


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_torch_rounds_alike(name: str) -> None:
    torch = pytest.importorskip("torch")
    generator = np.random.default_rng(5)
    values = generator.integers(0, 2**32, 200_000, np.uint32).view(np.float32)
    values = values[np.abs(values) <= DTYPES[name].largest]
    theirs = torch.from_numpy(values.copy()).to(getattr(torch, name))
    bits = theirs.view(torch.uint8).numpy().view(f"u{DTYPES[name].itemsize}")
    np.testing.assert_array_equal(from_float32(values, name).view(bits.dtype), bits)
