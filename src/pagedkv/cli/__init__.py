"""The command line: one file a command and one entry in COMMANDS.

A command returns nothing and ends with typer.Exit for any exit code but 0. Bad input is a message on standard error and
exit code 2, never a traceback; an interrupted command ends with 130.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated

import typer

from pagedkv.cli.cache import cache
from pagedkv.cli.doctor import doctor
from pagedkv.cli.selftest import selftest
from pagedkv.cli.simulate import simulate
from pagedkv.errors import PagedKVError

COMMANDS: tuple[Callable[..., None], ...] = (simulate, selftest, doctor, cache)

BAD_INPUT = 2
INTERRUPTED = 130


def main() -> None:
    """Run the command line of this process and exit."""
    if sys.stdout is None:  # started with standard output closed
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  # for the process
    _application()()


def _application() -> typer.Typer:
    # No rich markup and no pretty exceptions: messages must read the same in a log, and rich costs start-up time.
    application = typer.Typer(
        name="pagedkv",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    application.callback()(_version_option)
    for command in COMMANDS:
        application.command()(_reported(command))
    return application


def _print_version(asked: bool) -> None:
    if asked:
        from pagedkv.report.document import package_version

        print(f"pagedkv {package_version('pagedkv')}")
        raise typer.Exit


def _version_option(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """A framework-free KV-cache memory manager: simulate a load, test this installation."""


def _reported(command: Callable[..., None]) -> Callable[..., None]:
    """Turn what a user can cause into a message and an exit code; anything else is our fault and stays a traceback."""

    @wraps(command)
    def reported(**options: object) -> None:
        try:
            try:
                command(**options)
            finally:
                sys.stdout.flush()  # here, where a full disk can still be reported
        except PagedKVError as error:
            _fail(f"error: {error}", BAD_INPUT)
        except MemoryError:
            _fail("error: not enough memory for this run; ask for fewer blocks or requests", BAD_INPUT)
        except OSError as error:
            _drop_output()
            _fail("" if isinstance(error, BrokenPipeError) else f"error: output was not written ({error.strerror})", 1)
        except KeyboardInterrupt:
            _fail("interrupted", INTERRUPTED)

    return reported


def _drop_output() -> None:
    """What is still buffered cannot be written either; without this the interpreter would complain at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str, code: int) -> None:
    if message:
        print(message, file=sys.stderr)
    raise typer.Exit(code)
