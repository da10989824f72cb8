"""What `pagedkv sweep` sweeps: `pagedkv simulate`, with its own options, checks and documents.

The options are read off the command itself: whatever `simulate` learns, a sweep can vary.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_type_hints

from pagedkv.cli.simulate import simulate
from pagedkv.cli.simulation_cache import check_cache_options, run_cache_document
from pagedkv.cli.simulation_options import SimulateOptions
from pagedkv.cli.simulation_run import run_document
from pagedkv.cli.simulation_setup import prepare
from pagedkv.report.document import Document
from pagedkv.simulate import Trace, read_trace
from pagedkv.sweep import Option, Program
from pagedkv.sweep.job import package_versions
from pagedkv.sweep.program import FILE, FILE_OR_NAME, Options, Value

T = TypeVar("T")

WRITING = ("save_trace",)  # every configuration would write over the last one's file
_DEFAULTS: Mapping[str, Value] = {"device": "null"}  # a sweep is about numbers of blocks, not about bytes
_PATHS = {"step_time": re.compile("fit:(?P<file>.+)|roofline:(?P<either>[^:]+).*", re.DOTALL)}
_KINDS: dict[type, Literal["whole", "text", "flag"]] = {int: "whole", str: "text", bool: "flag"}


def simulation_program() -> Program:
    """Return `pagedkv simulate` as something to sweep. NumPy draws the loads, so its version counts, too."""
    return Program(
        simulation_options(), simulate_configuration, check_configuration, package_versions("pagedkv", "numpy")
    )


def simulate_configuration(options: Options) -> Document:
    """Run one configuration as `pagedkv simulate` does and return its document, without what differs from run to run.

    Runs in workers. Errors: PagedKVError of any kind.
    """
    given = _build(SimulateOptions, options)
    if given.cache_only:
        document = run_cache_document(given, show_progress=False)
    else:
        document = run_document(prepare(given, read=_read), show_progress=False)
    return document | {"device": document["device"] | {"free_bytes": None, "total_bytes": None}}


def check_configuration(options: Options) -> None:
    """Refuse a configuration that cannot run. Reads its trace, the same one only once. Errors: PagedKVError."""
    given = _build(SimulateOptions, options)
    if given.cache_only:
        check_cache_options(given)
    else:
        prepare(given, read=_read)


@cache
def simulation_options() -> Mapping[str, Option]:
    """Return the options of `pagedkv simulate` that describe a run, by name, in its order."""
    hints = get_type_hints(simulate, include_extras=True)
    known = set(_leaves(SimulateOptions)) - set(WRITING)
    found = {}
    for name, parameter in inspect.signature(simulate).parameters.items():
        annotated, *extras = get_args(hints[name])
        kinds = [_KINDS[kind] for kind in (annotated, *get_args(annotated)) if kind in _KINDS]
        if name in known and kinds:
            found[name] = Option(
                name,
                kinds[0],
                _DEFAULTS.get(name, parameter.default),
                _PATHS.get(name) or _path(extras[0].metavar),
            )
    return found


def _path(metavar: str | None) -> re.Pattern[str] | None:
    """A file by what the help calls the value: FILE, or PATH|NAME."""
    words = (metavar or "").split("|")
    if not {"FILE", "PATH"} & set(words):
        return None
    return FILE if len(words) == 1 else FILE_OR_NAME


def _leaves(options: Any) -> Iterator[str]:
    """The names of all fields, those of groups of options included."""
    hints = get_type_hints(options)
    for field in fields(options):
        group = _group(hints[field.name])
        yield from [field.name] if group is None else _leaves(group)


def _group(hint: Any) -> Any:
    return next((kind for kind in (hint, *get_args(hint)) if isinstance(kind, type) and is_dataclass(kind)), None)


def _build(made: type[T], options: Options) -> T:
    """Return the dataclass of options; what is not given is as the command's default."""
    known = simulation_options()
    hints = get_type_hints(made)
    values: dict[str, Any] = {}
    for field in fields(made):  # type: ignore[arg-type]
        group = _group(hints[field.name])
        if group is not None:
            values[field.name] = _build(group, options)
        elif field.name in known:
            values[field.name] = options.get(field.name, known[field.name].default)
        elif field.name in WRITING:
            values[field.name] = None
    return made(**values)


def _read(file: str, *, strict: bool, format: str | None) -> Trace:
    state = Path(file).stat() if "\0" not in file and Path(file).is_file() else None
    if state is None:
        return read_trace(file, strict=strict, format=format)
    return _remembered(file, strict, format, (state.st_mtime_ns, state.st_size))


@lru_cache(maxsize=1)  # of a large trace one is enough to hold, and a grid runs through one after the other
def _remembered(file: str, strict: bool, format: str | None, state: tuple[int, int]) -> Trace:
    return read_trace(file, strict=strict, format=format)
