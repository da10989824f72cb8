"""How numbers are read and written."""

from __future__ import annotations

import pytest

from pagedkv.cli.quantities import step_ticks, watermark_blocks
from pagedkv.report.quantities import count, mib, percent, size


def test_numbers_as_written() -> None:
    assert count(1_234_567) == "1,234,567"
    assert mib(663_552) == "0.63 MiB"
    assert mib(80 * 2**30) == "81,920.00 MiB"
    assert [size(n) for n in (1, 1000, 8192, 1536, 256 * 2**20, 2**62)] == [
        "1 B",
        "1,000 B",
        "8 KiB",
        "1.50 KiB",
        "256 MiB",
        "4 EiB",
    ]
    assert (percent(0.00247), percent(1.0), percent(None)) == ("0.25 %", "100.00 %", "n/a")


@pytest.mark.parametrize(
    ("text", "blocks", "found"), [("1%", 10, 0), ("1%", 100, 1), ("99.99%", 10, 9), ("29%", 100, 29), ("3", 10, 3)]
)
def test_watermark(text: str, blocks: int, found: int) -> None:
    assert watermark_blocks(text, blocks) == found  # 29 %: 0.29 * 100 is 28.99... in floats


@pytest.mark.parametrize(("text", "ticks"), [("50", 500_000), ("12.5", 125_000), ("0.0001", 1), ("0.3", 3_000)])
def test_step(text: str, ticks: int) -> None:
    assert step_ticks(text) == ticks
