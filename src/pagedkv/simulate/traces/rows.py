"""What every trace reader fills in: accepted rows, dropped rows with their reason, and the trace that comes out.

Rows are numbered from 1, the header (if the format has one) being row 0 and blank lines counting, so row r is line
r + 1 of a file with a header and line r of one without. A *dropped* row has no prompt or no output tokens; a *bad* row
cannot be read.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pagedkv.arguments import INT32_MAX
from pagedkv.errors import TraceError
from pagedkv.simulate.conversations import Conversations
from pagedkv.simulate.identities import PromptIdentities
from pagedkv.simulate.workload import Workload

LISTED = 20  # dropped and bad rows are all counted; the first few are kept with their reason
SHOWN = 40  # characters of a field that a message repeats
TICKS_PER_SECOND = 10_000_000  # ticks of 100 ns
# Two rows of one file are not ten years apart: one of them counts from 1970, the other from the start of the run.
LONGEST_SPAN = 3653 * 86_400 * TICKS_PER_SECOND

Column = NDArray[np.int64]


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


class Contents(Protocol):
    """What the prompts of the accepted rows hold, one entry a row, in file order."""

    def ordered(self, order: Column | None) -> PromptIdentities | Conversations:
        """Return it in replay order: entry i is that of row order[i]; None: the file's order."""


def shown(text: str) -> str:
    """Return a field as a message may repeat it: ASCII, quoted, cut."""
    return ascii(text if len(text) <= SHOWN else text[:SHOWN] + "...")


def no_tokens(count: int) -> str:
    """Return why a row is dropped."""
    return f"is {count}: nothing to replay"


@dataclass(slots=True)
class TraceRows:
    """Collects the rows of one file or folder. strict: the first row that would be skipped is a TraceError instead.

    columns: the names of time (None: the format has no times), prompt and output, for messages; set before the first
    row. one_clock: times are numbers, which could be counted from different origins. Memory: 8 bytes a value.
    """

    file: Path
    strict: bool
    columns: tuple[str | None, str, str] = ("time", "prompt", "output")
    one_clock: bool = False
    part: Path | None = None  # the file of a folder that is being read
    ticks: array[int] = field(default_factory=lambda: array("q"))
    prompts: array[int] = field(default_factory=lambda: array("q"))
    outputs: array[int] = field(default_factory=lambda: array("q"))
    rows: int = 0
    dropped_rows: int = 0
    bad_rows: int = 0
    skipped: list[SkippedRow] = field(default_factory=list)
    was_sorted: bool = True
    last: int | None = None  # the time of the row before, None at the start of a sequence of its own
    _low: int | None = None
    _high: int | None = None

    def error(self, row: int | None, column: str | None, reason: str) -> TraceError:
        """Make (not raise) the error for a place in this file."""
        return TraceError(reason, file=str(self.part or self.file), row=row, column=column)

    def accept(self, row: int, ticks: int, prompt: int, output: int) -> None:
        """Take a row with ticks of 100 ns (0 without times) and two positive token counts."""
        if self.last is not None and ticks < self.last:
            if self.strict:
                reason = "is earlier than the row before; sort the file, or run without --strict"
                raise self.error(row, self.columns[0], reason)
            self.was_sorted = False
        if not self._within_span(ticks, ticks):
            raise self.error(row, self.columns[0], "is more than ten years from other rows: the file mixes two clocks")
        self.last = ticks
        self.rows += 1
        self.ticks.append(ticks)
        self.prompts.append(prompt)
        self.outputs.append(output)

    def accept_or_drop(self, row: int, ticks: int, prompt: int, output: int) -> bool:
        """Take a well-formed row, or drop it if it has nothing to replay; return whether it was taken."""
        for name, count in zip(self.columns[1:], (prompt, output), strict=True):
            if count <= 0:
                self.drop(row, name or "", no_tokens(count))
                return False
        self.accept(row, ticks, prompt, output)
        return True

    def extend(self, first_row: int, ticks: Column, prompts: Column, outputs: Column) -> bool:
        """Take many well-formed rows at once, dropping what has nothing to replay.

        False, and nothing taken: one of them needs a word of its own, so `accept` and `reject` must see them singly.
        """
        if any(int(counts.max()) > INT32_MAX or int(counts.min()) < -INT32_MAX for counts in (prompts, outputs)):
            return False
        keep = (prompts > 0) & (outputs > 0)
        kept = ticks[keep]
        before = kept[:1] if self.last is None else np.array([self.last], dtype=np.int64)
        in_order = not len(kept) or not bool(np.any(kept < np.concatenate([before, kept[:-1]])))
        if self.strict and not (bool(keep.all()) and in_order):
            return False
        if len(kept):
            if not self._within_span(int(kept.min()), int(kept.max())):
                return False
            self.last = int(kept[-1])
            self.was_sorted = self.was_sorted and in_order
        for place in np.flatnonzero(~keep)[: LISTED - len(self.skipped)].tolist():
            name, count = self.columns[1], int(prompts[place])
            if count > 0:
                name, count = self.columns[2], int(outputs[place])
            self.skipped.append(SkippedRow(first_row + place, name, no_tokens(count)))
        self.dropped_rows += len(keep) - len(kept)
        self.rows += len(keep)
        for column, values in ((self.ticks, kept), (self.prompts, prompts[keep]), (self.outputs, outputs[keep])):
            column.frombytes(values.tobytes())
        return True

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
            where = "" if self.part is None else f" ({shown(self.part.name)})"
            self.skipped.append(SkippedRow(row, column, reason + where))

    def _within_span(self, low: int, high: int) -> bool:
        """Whether these times can be of the same clock as those before; if so, remember them."""
        if self.one_clock:
            low = low if self._low is None else min(low, self._low)
            high = high if self._high is None else max(high, self._high)
            if high - low > LONGEST_SPAN:
                return False
            self._low, self._high = low, high
        return True

    def finish(self, format_name: str, contents: Contents | None = None) -> Trace:
        """Sort stably, subtract the smallest time, and return the trace. Errors: TraceError if no row is left."""
        if not self.ticks:
            raise self._nothing_left()
        columns = (self.ticks, self.prompts, self.outputs)
        ticks, prompts, outputs = (np.frombuffer(values, dtype=np.int64) for values in columns)  # no copies
        order = None
        if bool(np.any(ticks[1:] < ticks[:-1])):
            order = np.argsort(ticks, kind="stable")
            ticks, prompts, outputs = ticks[order], prompts[order], outputs[order]
        ticks -= ticks[0]
        known = None if contents is None else contents.ordered(order)
        return Trace(
            file=str(self.file),
            format=format_name,
            workload=Workload(
                prompts,
                outputs,
                None if self.columns[0] is None else ticks,
                known if isinstance(known, PromptIdentities) else None,
                known if isinstance(known, Conversations) else None,
            ),
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
