"""How numbers are written: thousands separated, bytes in binary units, shares with two decimals."""

from __future__ import annotations

_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def count(number: int) -> str:
    """1234567 -> 1,234,567."""
    return f"{number:,}"


def mib(nbytes: int) -> str:
    """Bytes in MiB with two decimals, whatever the size: two such figures stand side by side."""
    return f"{nbytes / 2**20:,.2f} MiB"


def size(nbytes: int) -> str:
    """Bytes in the largest unit that they fill: 8192 -> 8 KiB, 268435456 -> 256 MiB, 1000 -> 1,000 B."""
    unit, scale = "B", 1
    for power, name in enumerate(_UNITS, start=1):
        if nbytes >= 2 ** (10 * power):
            unit, scale = name, 2 ** (10 * power)
    return f"{nbytes // scale:,} {unit}" if nbytes % scale == 0 else f"{nbytes / scale:,.2f} {unit}"


def percent(share: float | None) -> str:
    """0.5 -> 50.00 %, never -0.00 %; None (a share of nothing) -> n/a."""
    return "n/a" if share is None else f"{share * 100:z.2f} %"
