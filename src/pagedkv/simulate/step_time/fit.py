"""Coefficients of a linear step time from measured steps, by least squares with none of them negative."""

from __future__ import annotations

import csv
from dataclasses import asdict, dataclass
from itertools import combinations
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pagedkv.errors import InvalidArgumentError
from pagedkv.simulate.step_time.linear import LinearTime
from pagedkv.simulate.step_time.work import StepWork

MOST, SHORTEST = 1e15, 1e-12  # beyond these no engine counts or measures, and squares would pass all numbers
COLUMNS = ("prefill_tokens", "decode_sequences", "context_tokens", "seconds")
Matrix = NDArray[np.float64]


@dataclass(slots=True)
class FittedSteps:
    """A linear time and how well it fits. Errors are relative to the measured seconds; largest: of each column.

    beyond: steps of a run that had more of something than any measured step. `seconds` counts them.
    """

    file: str
    linear: LinearTime
    rows: int
    mean_error: float
    largest_error: float
    largest: tuple[int, int, int]
    beyond: int = 0

    def seconds(self, work: StepWork) -> float:
        """Return the seconds of a step."""
        prefill, sequences, context = self.largest
        if work.prefill_tokens > prefill or work.decode_sequences > sequences or work.context > context:
            self.beyond += 1
        return self.linear.seconds(work)

    def described(self) -> dict[str, Any]:
        """Return the coefficients, the fit, and how many steps lay beyond what was measured."""
        return self.linear.described() | {
            "kind": "fit",
            "file": self.file,
            "rows": self.rows,
            "mean_relative_error": self.mean_error,
            "largest_relative_error": self.largest_error,
            "largest_measured": dict(zip(COLUMNS, self.largest, strict=False)),
            "steps_beyond_measured": self.beyond,
        }


def fit_steps(file: str | PathLike[str]) -> FittedSteps:
    """Fit a CSV with the columns prefill_tokens, decode_sequences, context_tokens, seconds: one measured step a row.

    Errors: InvalidArgumentError for a file that cannot be read, a missing column, a value that is no number of its
    kind, or fewer than four rows.
    """
    rows = _read(file)
    work, seconds = rows[:, :3], rows[:, 3]
    terms = np.column_stack((np.ones(len(rows)), work))
    linear = LinearTime(*_nonnegative(terms, seconds).tolist())
    predicted = terms @ np.array(list(asdict(linear).values()))
    errors = np.abs(predicted - seconds) / seconds
    largest = tuple(int(value) for value in work.max(axis=0))
    return FittedSteps(
        str(file), linear, len(rows), float(errors.mean()), float(errors.max()), (largest[0], largest[1], largest[2])
    )


def _nonnegative(terms: Matrix, seconds: Matrix) -> Matrix:
    """The best fit over every choice of terms that leaves no coefficient negative: with four terms, sixteen fits.

    Rows are weighed by 1 / seconds, so that short steps count as much as long ones.
    """
    weighed, ones = terms / seconds[:, None], np.ones(len(seconds))
    best, least = np.zeros(terms.shape[1]), np.inf
    for size in range(1, terms.shape[1] + 1):
        for chosen in combinations(range(terms.shape[1]), size):
            columns = list(chosen)
            found, *_ = np.linalg.lstsq(weighed[:, columns], ones, rcond=None)
            if (found < 0).any():
                continue
            residual = float(np.square(weighed[:, columns] @ found - ones).sum())
            if residual < least * (1 - 1e-12):  # of equal fits the one with fewer terms
                least, best = residual, np.zeros(terms.shape[1])
                best[columns] = found
    return best


def _read(file: str | PathLike[str]) -> Matrix:
    try:
        with open(file, newline="", encoding="utf-8-sig") as lines:  # noqa: PTH123 - a str or any path
            reader = csv.DictReader(lines)
            missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
            if missing:
                raise InvalidArgumentError(f"{file} has no column {', '.join(missing)}; it needs {', '.join(COLUMNS)}")
            rows = [_row(file, number, row) for number, row in enumerate(reader, start=2)]
    except (OSError, UnicodeDecodeError, csv.Error, ValueError) as error:
        if isinstance(error, InvalidArgumentError):
            raise
        raise InvalidArgumentError(f"measured steps {file} cannot be read: {error}") from error
    if len(rows) < len(COLUMNS):
        raise InvalidArgumentError(f"{file} has {len(rows)} measured steps; four coefficients need four or more")
    return np.array(rows)


def _row(file: str | PathLike[str], number: int, row: dict[str, str]) -> list[float]:
    values = []
    for name in COLUMNS:
        text = (row[name] or "").strip()
        try:
            value = float(text)
        except ValueError:
            value = np.nan
        if not (SHORTEST if name == "seconds" else 0) <= value <= MOST:
            raise InvalidArgumentError(f"{file}, line {number}, column {name}: {text[:40]!r} is no measured step's")
        values.append(value)
    return values
