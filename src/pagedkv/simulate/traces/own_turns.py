"""The last turn of each session of a trace, so that the next one is found: row by row, or many rows at once."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]


class Turn(NamedTuple):
    """A session's last accepted row: its number from 0, its ticks, the tokens of its prompt and answer."""

    row: int
    ticks: int
    tokens: int


class Turns:
    """The sessions by name; 7 and "7" are two. 24 bytes a session beside its name. Modifies itself."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._rows = array("q")  # -1: none was accepted
        self._ticks = array("q")
        self._tokens = array("q")

    def last(self, session: Hashable) -> Turn | None:
        """Return the last turn of a session, None if it has none."""
        number = self._numbers.get(session, -1)
        if number < 0 or self._rows[number] < 0:
            return None
        return Turn(self._rows[number], self._ticks[number], self._tokens[number])

    def add(self, session: Hashable, turn: Turn) -> None:
        """Keep a session's turn as its last."""
        number = self._numbers.setdefault(session, len(self._numbers))
        self._make_room()
        self._rows[number], self._ticks[number], self._tokens[number] = turn

    def numbers(self, sessions: Sequence[Hashable]) -> Numbers:
        """Return a number for each name, equal where the names are; -1 for None."""
        numbers = self._numbers
        named = [-1 if name is None else numbers.setdefault(name, len(numbers)) for name in sessions]
        self._make_room()
        return np.array(named, dtype=np.int64)

    def chain(self, numbers: Numbers, turns: tuple[Numbers, Numbers, Numbers]) -> tuple[Numbers, Numbers, Numbers]:
        """Return rows, ticks and tokens of the turn before each of these rows; -1, 0 and 0 where there is none.

        numbers: the rows' sessions; turns: rows, ticks and tokens of the rows themselves. Pure.
        """
        order, starts = _by_session(numbers)
        befores = []
        for values, kept, nothing in zip(turns, (self._rows, self._ticks, self._tokens), (-1, 0, 0), strict=True):
            before = np.empty_like(values)
            before[1:] = values[order[:-1]]
            heads = numbers[order[starts]]
            known = np.frombuffer(kept, dtype=np.int64) if kept else np.empty(0, np.int64)
            before[starts] = np.where(heads < 0, nothing, known[heads] if len(known) else nothing)
            before[numbers[order] < 0] = nothing
            placed = np.empty_like(before)
            placed[order] = before
            befores.append(placed)
        rows, ticks, tokens = befores
        return rows, ticks, tokens

    def extend(self, numbers: Numbers, turns: tuple[Numbers, Numbers, Numbers]) -> None:
        """Keep the last of these turns of every session."""
        order, starts = _by_session(numbers)
        lasts = order[np.append(starts[1:], len(order)) - 1]
        lasts = lasts[numbers[lasts] >= 0]
        for values, kept in zip(turns, (self._rows, self._ticks, self._tokens), strict=True):
            if kept:
                np.frombuffer(kept, dtype=np.int64)[numbers[lasts]] = values[lasts]

    def _make_room(self) -> None:
        missing = len(self._numbers) - len(self._rows)
        if missing:
            self._rows.extend([-1] * missing)
            self._ticks.extend([0] * missing)
            self._tokens.extend([0] * missing)


def _by_session(numbers: Numbers) -> tuple[Numbers, Numbers]:
    """Return the rows' places session by session, in order within each, and where each session starts in them."""
    order = np.argsort(numbers, kind="stable")
    grouped = numbers[order]
    starts = np.flatnonzero(np.concatenate([np.ones(1, bool), grouped[1:] != grouped[:-1]]))
    return order, starts
