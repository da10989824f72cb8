"""Option values: whole numbers, a watermark in blocks or percent, a step in milliseconds, shares, token lengths."""

from __future__ import annotations

import re
from fractions import Fraction

import typer

from pagedkv.arguments import INT32_MAX, INT64_MAX, whole_number
from pagedkv.errors import InvalidArgumentError

TICKS_PER_MS = 10_000  # ticks of 100 ns

_WHOLE = re.compile(r"-?[0-9]{1,40}", re.ASCII)
_LENGTH = re.compile(r"([0-9]{1,10})([kK]?)", re.ASCII)
SMALL_DECIMAL = re.compile(r"[0-9]{1,12}(\.[0-9]{1,9})?", re.ASCII)
_DECIMAL = re.compile(r"[0-9]{1,18}(\.[0-9]{1,9})?", re.ASCII)


def whole(text: str) -> int:
    """Read a whole number the way one writes it: "16", and not "16.0", "1e3" or "1_000".

    Errors: typer.BadParameter, which names the option.
    """
    if _WHOLE.fullmatch(str(text)) is None:
        raise typer.BadParameter(f"{str(text)[:40]!r} is no whole number")
    return int(text)


def watermark_blocks(text: str, num_blocks: int) -> int:
    """Return whole blocks for "3" or "2.5%"; a percentage of the pool is rounded down.

    Errors: InvalidArgumentError unless it is from 0 to below the pool.
    """
    text = text.strip()
    number = text.removesuffix("%").strip()
    if _DECIMAL.fullmatch(number) is None or (text == number and not number.isdigit()):
        raise InvalidArgumentError(f"--watermark is {text[:40]!r}; give whole blocks, or a percentage such as 1%")
    if text == number:
        return whole_number(int(number), "--watermark", maximum=max(0, num_blocks - 1))
    share = Fraction(number) / 100
    if share >= 1:
        raise InvalidArgumentError(f"--watermark is {text[:40]!r}, the whole pool or more; give less than 100%")
    return int(share * num_blocks)


def step_ticks(text: str) -> int:
    """Return ticks of 100 ns for milliseconds such as "50" or "12.5".

    Errors: InvalidArgumentError for zero, what is finer than 100 ns, and what is no decimal number.
    """
    text = text.strip()
    if _DECIMAL.fullmatch(text) is None:
        raise InvalidArgumentError(f"--step-ms is {text[:40]!r}; give milliseconds, such as 50 or 12.5")
    ticks = Fraction(text) * TICKS_PER_MS
    if ticks.denominator != 1:
        raise InvalidArgumentError(f"--step-ms is {text}; give a multiple of 0.0001 (a trace counts 100 ns)")
    return whole_number(int(ticks), "--step-ms in units of 100 ns", minimum=1, maximum=INT64_MAX)


def probability(text: str, name: str) -> float:
    """Return a number from 0 to 1, such as 0.9. Errors: InvalidArgumentError, which names the option."""
    text = text.strip()
    if re.fullmatch(r"[0-9]+(\.[0-9]*)?|\.[0-9]+", text) is None or float(text) > 1:
        raise InvalidArgumentError(f"{name} is {text[:40]!r}; give a probability, 0 to 1, such as 0.9")
    return float(text)


def share(text: str, name: str) -> Fraction:
    """Return a share above 0 and up to 1, exactly. Errors: InvalidArgumentError, which names the option."""
    text = text.strip()
    if _DECIMAL.fullmatch(text) is None or not 0 < Fraction(text) <= 1:
        raise InvalidArgumentError(f"{name} is {text[:40]!r}; give a share above 0 and up to 1, such as 0.9")
    return Fraction(text)


def token_lengths(text: str, name: str) -> tuple[int, ...]:
    """Return lengths in tokens for "1k,2k,5000"; k is 1024. Errors: InvalidArgumentError, which names the option."""
    found = [_LENGTH.fullmatch(part.strip()) for part in text.split(",")]
    if not all(found):
        raise InvalidArgumentError(f"{name} is {text[:40]!r}; give tokens with commas between, such as 1k,2k,5000")
    lengths = [int(match[1]) * (1024 if match[2] else 1) for match in found if match is not None]
    return tuple(whole_number(length, name, minimum=1, maximum=INT32_MAX) for length in lengths)


def block_count(value: int) -> int:
    """Return --blocks, checked."""
    return whole_number(value, "--blocks", minimum=1, maximum=INT32_MAX)
