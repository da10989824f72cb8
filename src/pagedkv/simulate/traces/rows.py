"""What every trace reader fills in: accepted rows, dropped rows with their reason, and the trace that comes out.

Rows are numbered from 1, the header (if the format has one) being row 0 and blank lines counting, so row r is line
r + 1 of a CSV file and line r of a JSONL file. A *dropped* row has no prompt or no output tokens; a *bad* row cannot be
read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from pagedkv.errors import TraceError
from pagedkv.simulate.identities import join_identities
from pagedkv.simulate.workload import Workload

LISTED = 20  # dropped and bad rows are all counted; the first few are kept with their reason
SHOWN = 40  # characters of a field that a message repeats


@dataclass(frozen=True, slots=True)
class SkippedRow:
    """One row that takes no part: its number, the column at fault and why."""

    row: int
    column: str
    reason: str


@dataclass(frozen=True, slots=True)
class Trace:
    """A trace in replay order: by arrival, equal times in file order, the smallest time subtracted.

    dropped_rows and bad_rows are counts over the whole file; skipped lists the first 20 of both kinds together.
    """

    file: str
    format: str
    workload: Workload
    rows: int
    dropped_rows: int
    bad_rows: int
    skipped: tuple[SkippedRow, ...]
    was_sorted: bool


def shown(text: str) -> str:
    """Return a field as a message may repeat it: ASCII, quoted, cut."""
    return ascii(text if len(text) <= SHOWN else text[:SHOWN] + "...")


def cells(line: str) -> list[str]:
    """Return the comma-separated fields of a line, without spaces and quotation marks around them."""
    return [cell.strip().strip('"') for cell in line.split(",")]


@dataclass(slots=True)
class TraceRows:
    """Collects the rows of one file. strict: the first row that would be skipped is a TraceError instead."""

    file: Path
    strict: bool
    time_column: str = "time"
    ticks: list[int] = field(default_factory=list)
    prompts: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    identities: list[Sequence[int]] = field(default_factory=list)
    rows: int = 0
    dropped_rows: int = 0
    bad_rows: int = 0
    skipped: list[SkippedRow] = field(default_factory=list)
    was_sorted: bool = True

    def error(self, row: int | None, column: str | None, reason: str) -> TraceError:
        """Make (not raise) the error for a place in this file."""
        return TraceError(reason, file=str(self.file), row=row, column=column)

    def accept(self, row: int, ticks: int, prompt: int, output: int, identities: Sequence[int] = ()) -> None:
        """Take a row with ticks of 100 ns, two positive token counts and, in some formats, its prompt's identities."""
        if self.ticks and ticks < self.ticks[-1]:
            self.was_sorted = False
            if self.strict:
                reason = "is earlier than the row before; sort the file, or run without --strict"
                raise self.error(row, self.time_column, reason)
        self.rows += 1
        self.ticks.append(ticks)
        self.prompts.append(prompt)
        self.outputs.append(output)
        self.identities.append(identities)

    def drop(self, row: int, column: str, reason: str) -> None:
        """Count a row that is well formed and has nothing to replay."""
        self.dropped_rows += 1
        self._skip(row, column, reason)

    def reject(self, row: int, column: str, reason: str) -> None:
        """Count a row that cannot be read."""
        self.bad_rows += 1
        self._skip(row, column, reason)

    def _skip(self, row: int, column: str, reason: str) -> None:
        if self.strict:
            raise self.error(row, column, f"{reason}; correct it, or run without --strict to drop and count such rows")
        self.rows += 1
        if len(self.skipped) < LISTED:
            self.skipped.append(SkippedRow(row, column, reason))

    def finish(self, format_name: str, *, tokens_per_id: int | None = None) -> Trace:
        """Sort stably, subtract the smallest time, and return the trace. Errors: TraceError if no row is left.

        tokens_per_id: tokens that an identity stands for; None: this format has none.
        """
        if not self.ticks:
            raise self._nothing_left()
        ticks = np.array(self.ticks, dtype=np.int64)
        prompts, outputs = np.array(self.prompts, dtype=np.int64), np.array(self.outputs, dtype=np.int64)
        identities = self.identities
        if not self.was_sorted:
            order = np.argsort(ticks, kind="stable")
            ticks, prompts, outputs = ticks[order], prompts[order], outputs[order]
            identities = [identities[place] for place in order.tolist()]
        known = None if tokens_per_id is None else join_identities(identities, tokens_per_id)
        return Trace(
            file=str(self.file),
            format=format_name,
            workload=Workload(prompts, outputs, ticks - ticks[0], known),
            rows=self.rows,
            dropped_rows=self.dropped_rows,
            bad_rows=self.bad_rows,
            skipped=tuple(self.skipped),
            was_sorted=self.was_sorted,
        )

    def _nothing_left(self) -> TraceError:
        if not self.skipped:
            return self.error(None, None, "there are no rows; give a trace with requests")
        first = self.skipped[0]
        reason = f"none of the {self.rows} rows can be replayed; the first: {first.reason}"
        return self.error(first.row, first.column, reason)
