"""What is swept: a program with its options, and the configurations that a spec asks for. Plain data."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pagedkv.errors import InvalidArgumentError

Value: TypeAlias = str | int | bool
Options: TypeAlias = Mapping[str, Value]
Document: TypeAlias = dict[str, Any]

FILE = re.compile("(?P<file>.+)", re.DOTALL)
FILE_OR_NAME = re.compile("(?P<either>.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Option:
    """name: with underscores. path: where a value has the name of a file; its group "file" is one, its group "either"
    is one if that is there, and a name of another kind if not.
    """

    name: str
    kind: Literal["whole", "text", "flag"]
    default: Value | None = None
    path: re.Pattern[str] | None = None

    @property
    def shown(self) -> str:
        """The name as the command line has it, without its dashes in front."""
        return self.name.replace("_", "-")


@dataclass(frozen=True, slots=True)
class Program:
    """What can be swept.

    options: by name. task: a function of a module (workers find it by its name) that takes the options that are given
    and returns a JSON document; what it raises of PagedKVError is that configuration's failure. check: raises
    PagedKVError for options that cannot run. versions: of the packages that decide what a result is; they are part of
    its key, and a worker that has others refuses the work.
    """

    options: Mapping[str, Option]
    task: Callable[[Options], Document]
    check: Callable[[Options], None]
    versions: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Configuration:
    """One run. number: from 1, in the spec's order; given: options as the spec has them, without defaults; varied:
    those that differ from run to run; folder: what relative paths start from.
    """

    number: int
    given: Options
    varied: Options
    folder: Path

    @property
    def name(self) -> str:
        """What sets it apart, as in "block-size 16, watermark 1%"."""
        return ", ".join(f"{name.replace('_', '-')} {shown_value(value)}" for name, value in self.varied.items())

    def __str__(self) -> str:
        return f"configuration {self.number} ({self.name or 'as fixed'})"


@dataclass(frozen=True, slots=True)
class Sweep:
    """A program's configurations. varied: the names of all options that differ from run to run, in the spec's order."""

    program: Program
    configurations: tuple[Configuration, ...]
    varied: tuple[str, ...]
    source: str

    def located(self, configuration: Configuration, error: object) -> InvalidArgumentError:
        """Return an error that says where in the sweep something is wrong."""
        return InvalidArgumentError(f"sweep {self.source!r}, {configuration}: {error}")


def resolved(program: Program, configuration: Configuration) -> dict[str, Value]:
    """Return the options that are given, paths as a worker finds them. Looks for files; changes nothing."""
    return {
        name: _found(program.options[name], value, configuration.folder) for name, value in configuration.given.items()
    }


def files_of(program: Program, options: Options) -> dict[str, str]:
    """Return the files among resolved options: option -> path."""
    found = {name: _named(program.options[name], value) for name, value in options.items()}
    return {name: file for name, (file, kind) in found.items() if kind == "file" or Path(file).is_absolute()}


def shown_value(value: Value) -> str:
    """A value as a spec and a command line have it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _found(option: Option, value: Value, folder: Path) -> Value:
    name, kind = _named(option, value)
    path = folder / name
    return str(value).replace(name, str(path), 1) if name and (kind == "file" or path.exists()) else value


def _named(option: Option, value: Value) -> tuple[str, str]:
    """The name of a file in a value, and its group; both empty if there is none."""
    found = option.path.fullmatch(str(value)) if option.path is not None else None
    return (found[found.lastgroup], found.lastgroup) if found is not None and found.lastgroup else ("", "")
