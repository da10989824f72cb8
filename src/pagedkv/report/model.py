"""A report as plain data: what is said, not how it looks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Outcome = Literal["PASS", "FAIL", "INTERRUPTED"]


@dataclass(frozen=True, slots=True)
class Line:
    """One figure: its label, its value in words, and what a reader needs to judge it."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """Figures that belong together."""

    title: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Things that are compared: one a row, its name first, then as many figures as the header has."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Report:
    """title and banner first, then sections, tables, notes (warnings included), and one closing line."""

    title: str
    banner: tuple[str, ...]
    sections: tuple[Section, ...]
    notes: tuple[str, ...]
    outcome: Outcome
    closing: str
    tables: tuple[Table, ...] = ()
