"""A program to sweep whose runs can be watched and held: it says where it runs, and waits for a file if it is told to.

Importable by workers: local ones have this process's path, Dask's are given it.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pagedkv.errors import InvalidArgumentError, TraceError
from pagedkv.sweep import Option, Program, Sweep, read_sweep
from pagedkv.sweep.program import FILE, FILE_OR_NAME, Options

PATIENCE = 60  # seconds; whoever waits for longer waits in vain


def add(options: Options) -> dict[str, Any]:
    """a + b, after leaving a file "begun.A.PID.N" in `notes`; with `held`, once there is a file "go"."""
    a = options.get("a", 0)
    assert isinstance(a, int)
    if notes := options.get("notes"):
        folder = Path(str(notes))
        (folder / f"begun.{a}.{os.getpid()}.{time.monotonic_ns()}").touch()
        if options.get("held"):
            wait_for((folder / "go").exists)
    if a == options.get("fails_at"):
        raise TraceError("is no good", "some.csv", 3)
    if a == options.get("raises_at"):
        raise ZeroDivisionError("a fault of ours")
    if a == options.get("dies_at"):
        os.kill(os.getpid(), signal.SIGKILL)
    return {"outcome": "PASS", "figures": {"sum": a + int(options.get("b", 1))}}


def check(options: Options) -> None:
    """Nobody adds 13."""
    if options.get("a") == 13:
        raise InvalidArgumentError("--a is 13; give another number")


ADDITION = Program(
    {
        option.name: option
        for option in (
            *(Option(name, "whole", None) for name in ("a", "fails_at", "raises_at", "dies_at")),
            Option("b", "whole", 1),
            Option("notes", "text"),
            Option("held", "flag", False),
            Option("word", "text"),
            Option("read_from", "text", path=FILE),
            Option("model", "text", path=FILE_OR_NAME),
        )
    },
    add,
    check,
    {},
)


def sweep_of(folder: Path, text: str, program: Program = ADDITION) -> Sweep:
    """The sweep of a spec's text, in a file of that folder."""
    file = folder / "sums.toml"
    file.write_text(text, encoding="utf-8")
    return read_sweep(file, program)


def begun(folder: Path) -> list[tuple[int, int]]:
    """(a, process) of every run that began, in the order of time."""
    found = [file.name.split(".") for file in folder.glob("begun.*")]
    return [(int(a), int(process)) for _, a, process, _ in sorted(found, key=lambda name: int(name[3]))]


def wait_for(there: Callable[[], bool]) -> None:
    """Return once it is so."""
    end = time.monotonic() + PATIENCE
    while not there():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.005)
