"""A report on a terminal: panels side by side where the width allows it. rich takes care of NO_COLOR and of width."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table as Grid
from rich.text import Text

from pagedkv.report.model import Report, Section, Table

_TWO_COLUMNS = 110  # characters; below, the notes of two panels side by side would wrap on every line
_STYLES = {"PASS": "bold green", "FAIL": "bold red", "INTERRUPTED": "bold yellow"}


def print_report(report: Report) -> None:
    """Print to standard output, a terminal."""
    console = Console(highlight=False, markup=False, emoji=False)  # names of files may look like either
    banner = Text("\n".join(report.banner))
    console.print(Panel(banner, title=Text(report.title), title_align="left", border_style="cyan"))
    console.print(_panels(report.sections, two=console.width >= _TWO_COLUMNS))
    for table in report.tables:
        console.print(_table(table))
    for note in report.notes:
        console.print(Text(f"note: {note}", style="yellow"))
    console.print(Text.assemble((report.outcome, _STYLES[report.outcome]), f": {report.closing}"))


def _panels(sections: tuple[Section, ...], *, two: bool) -> RenderableType:
    panels = [_panel(section) for section in sections]
    if not two:
        return Group(*panels)
    # Filled by height, not by turns: the shorter column takes the next panel, so neither ends far above the other.
    columns: tuple[list[Panel], list[Panel]] = ([], [])
    heights = [0, 0]
    for panel, section in zip(panels, sections, strict=True):
        side = 0 if heights[0] <= heights[1] else 1
        columns[side].append(panel)
        heights[side] += len(section.lines) + 2
    grid = Grid.grid(expand=True)
    grid.add_column(ratio=1)
    grid.add_column(ratio=1)
    grid.add_row(Group(*columns[0]), Group(*columns[1]))
    return grid


def _panel(section: Section) -> Panel:
    table = Grid.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_column(style="dim")
    for line in section.lines:
        table.add_row(line.label, Text(line.value, style="bold"), line.note)
    return Panel(table, title=Text(section.title), title_align="left")


def _table(table: Table) -> Panel:
    grid = Grid(box=None, padding=(0, 1), header_style="dim")
    grid.add_column(table.header[0], no_wrap=True)
    for title in table.header[1:]:
        grid.add_column(title, justify="right")
    for name, *figures in table.rows:
        grid.add_row(name, *(Text(figure, style="bold") for figure in figures))
    return Panel(grid, title=Text(table.title), title_align="left")
