"""Reading a sweep's spec, a TOML file: [fixed] options, a [grid] of options with lists of values, [[also]] single runs.

Options are written as the command line has them, with - or _. The grid's product is taken, its last option varying
fastest; an [[also]] overrides what is fixed. Every error names the file and the place in it.
"""

from __future__ import annotations

import math
import tomllib
from itertools import product
from os import PathLike
from pathlib import Path
from typing import Any

from pagedkv.errors import InvalidArgumentError
from pagedkv.sweep.program import Configuration, Option, Program, Sweep, Value, shown_value

MOST_CONFIGURATIONS = 10_000
MOST_BYTES = 4 << 20
_TABLES = ("fixed", "grid", "also")
_KINDS = {"whole": "a whole number", "text": "a text or a number", "flag": "true or false"}


def read_sweep(file: str | PathLike[str], program: Program) -> Sweep:
    """Return the configurations that a spec asks for, without looking at any file that they name.

    Errors: InvalidArgumentError for a file that is missing or no TOML, options that are unknown, of a wrong type or
    given twice, an empty grid, equal configurations, and more of them than 10,000. Reads the file; changes nothing.
    """
    path = Path(file)
    try:
        return _Spec(path, program).sweep()
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"sweep {str(path)!r}: {error}") from None


class _Spec:
    def __init__(self, path: Path, program: Program) -> None:
        self._path = path
        self._program = program
        tables = _content(path)
        if strange := sorted(set(tables) - set(_TABLES)):
            raise InvalidArgumentError(f"{strange[0]!r} is unknown; it may have [fixed], [grid] and [[also]]")
        self._fixed = self._values(_table(tables, "fixed"), "fixed")
        self._grid = self._lists(_table(tables, "grid")) if "grid" in tables else {}
        also = tables.get("also", [])
        if not isinstance(also, list) or not all(isinstance(one, dict) for one in also):
            raise InvalidArgumentError("also is no list of tables; write [[also]]")
        self._also = [self._values(one, f"also {number}") for number, one in enumerate(also, start=1)]

    def sweep(self) -> Sweep:
        if not self._grid and not self._also:
            raise InvalidArgumentError("there is nothing to run; give a [grid], or [[also]]")
        count = len(self._also) + (math.prod(map(len, self._grid.values())) if self._grid else 0)
        if count > MOST_CONFIGURATIONS:
            raise InvalidArgumentError(
                f"there are {count:,} configurations, and {MOST_CONFIGURATIONS:,} at most; give fewer values in grid"
            )
        drawn = [dict(zip(self._grid, values, strict=True)) for values in product(*self._grid.values())]
        each = [*(drawn if self._grid else ()), *self._also]
        varied = tuple(dict.fromkeys(name for one in each for name in one))
        made = [
            Configuration(number, self._fixed | one, self._shown(one, varied), self._path.parent.absolute())
            for number, one in enumerate(each, start=1)
        ]
        self._refuse_equal(made)
        return Sweep(self._program, tuple(made), varied, str(self._path))

    def _shown(self, own: dict[str, Value], varied: tuple[str, ...]) -> dict[str, Value]:
        """What sets a configuration apart: its own values, and fixed ones where others have theirs."""
        whole = self._fixed | own
        return {name: whole[name] for name in varied if name in whole}

    def _refuse_equal(self, made: list[Configuration]) -> None:
        seen: dict[frozenset[tuple[str, Value]], int] = {}
        for one in made:
            first = seen.setdefault(frozenset(one.given.items()), one.number)
            if first != one.number:
                raise InvalidArgumentError(f"{one} is configuration {first} again; leave out one of them")

    def _lists(self, table: dict[str, Any]) -> dict[str, list[Value]]:
        if not table:
            raise InvalidArgumentError("grid is empty; give an option and a list of its values, or leave out [grid]")
        found: dict[str, list[Value]] = {}
        for option, place, values in self._named(table, "grid"):
            if option.name in self._fixed:
                raise InvalidArgumentError(f"{place} is in [fixed], too; give it in one of them")
            if not isinstance(values, list) or not values:
                raise InvalidArgumentError(f"{place} is {_said(values)}; give a list of one value or more")
            read = [_value(option, value, f"{place}, value {at}") for at, value in enumerate(values, start=1)]
            if twice := [value for at, value in enumerate(read) if value in read[:at]]:
                raise InvalidArgumentError(f"{place} has {shown_value(twice[0])} twice; leave out one of them")
            found[option.name] = read
        return found

    def _values(self, table: dict[str, Any], where: str) -> dict[str, Value]:
        return {option.name: _value(option, value, place) for option, place, value in self._named(table, where)}

    def _named(self, table: dict[str, Any], where: str) -> list[tuple[Option, str, Any]]:
        """The options of a table, each with its place in the file and what is written there."""
        found: dict[str, tuple[Option, str, Any]] = {}
        for key, value in table.items():
            name = key.replace("-", "_")
            place = f"{where}, {key}"
            if name not in self._program.options:
                known = ", ".join(option.shown for option in self._program.options.values())
                raise InvalidArgumentError(f"{place} is no option of a sweep; there are {known}")
            if name in found:
                raise InvalidArgumentError(f"{place} is there twice, with - and with _; leave out one of them")
            found[name] = (self._program.options[name], place, value)
        return list(found.values())


def _content(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            text = file.read(MOST_BYTES + 1)
        if len(text) > MOST_BYTES:
            raise InvalidArgumentError(f"it has more than {MOST_BYTES:,} bytes; a spec is a short text in TOML")
        return tomllib.loads(text.decode("utf-8"))
    except OSError as error:
        raise InvalidArgumentError(f"it cannot be read ({error.strerror}); give a file in TOML") from None
    except InvalidArgumentError:
        raise
    except (RecursionError, ValueError) as error:  # what is no TOML, no UTF-8, or has a NUL in its name
        raise InvalidArgumentError(f"it is no TOML ({error}); mend it") from None


def _table(tables: dict[str, Any], name: str) -> dict[str, Any]:
    table = tables.get(name, {})
    if not isinstance(table, dict):
        raise InvalidArgumentError(f"{name} is {_said(table)}; write a table, [{name}]")
    return table


def _value(option: Option, value: Any, place: str) -> Value:
    """A value of the option's type; numbers are taken for texts, since the command line reads them from texts."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if option.kind == "flag" and isinstance(value, bool):
        return value
    if option.kind == "whole" and is_number and isinstance(value, int):
        return value
    if option.kind == "text" and isinstance(value, str):
        return value
    if option.kind == "text" and is_number and math.isfinite(value):
        return str(value)
    raise InvalidArgumentError(f"{place} is {_said(value)}; give {_KINDS[option.kind]}")


def _said(value: Any) -> str:
    shown = repr(value) if not isinstance(value, bool) else shown_value(value)
    return "an empty list" if value == [] else shown[:60]
