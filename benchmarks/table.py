"""Rows of figures as plain text columns."""

from collections.abc import Sequence

from benchmarks.report import Row

HEADINGS = ("case", "value", "target", "", "CPU min", "CPU median", "wall min", "wall median", "note")


def render(rows: Sequence[Row]) -> str:
    """Times are in microseconds a call; `value` is the larger minimum where the row was timed."""
    table = [HEADINGS, *(cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in table) for column in range(len(HEADINGS))]
    return "\n".join("  ".join(map(align, line, widths, range(len(HEADINGS)))).rstrip() for line in table)


def cells(row: Row) -> tuple[str, ...]:
    target = "" if row.target is None else str(row.target)
    spread = row.spread
    times: tuple[str, ...] = ("", "", "", "")
    if spread is not None:
        figures = (spread.cpu_min, spread.cpu_median, spread.wall_min, spread.wall_median)
        times = tuple(f"{figure:.2f}" for figure in figures)
    return (row.case, f"{row.value:.2f} {row.unit}", target, row.verdict, *times, row.note)


def align(text: str, width: int, column: int) -> str:
    """Words to the left, numbers to the right."""
    return text.ljust(width) if column in (0, 3, len(HEADINGS) - 1) else text.rjust(width)
