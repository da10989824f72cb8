"""The commands: one file a command and one entry in COMMANDS.

A command returns nothing and ends with typer.Exit for any exit code but 0.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Annotated

import typer

from pagedkv.cli import INTERRUPTED, end_on_interrupt, raise_on_interrupt
from pagedkv.cli.cache import cache
from pagedkv.cli.compare import compare
from pagedkv.cli.doctor import doctor
from pagedkv.cli.plan import plan
from pagedkv.cli.report import report
from pagedkv.cli.reproduce import reproduce
from pagedkv.cli.selftest import selftest
from pagedkv.cli.simulate import simulate
from pagedkv.cli.sweep import sweep
from pagedkv.errors import PagedKVError

COMMANDS: tuple[Callable[..., None], ...] = (
    simulate, sweep, plan, reproduce, report, compare, selftest, doctor, cache,
)  # fmt: skip

BAD_INPUT = 2


def application() -> None:
    """Read this process's arguments, run the command and exit."""
    _commands()()


def _commands() -> typer.Typer:
    # No rich markup and no pretty exceptions: messages must read the same in a log, and rich costs start-up time.
    commands = typer.Typer(
        name="pagedkv",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    commands.callback()(_version_option)
    for command in COMMANDS:
        commands.command()(_reported(command))
    return commands


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
    """A framework-free KV-cache memory manager: plan capacity, simulate a load, test this installation."""


def _reported(command: Callable[..., None]) -> Callable[..., None]:
    """Turn what a user can cause into a message and an exit code; anything else is our fault and stays a traceback."""

    @wraps(command)
    def reported(**options: object) -> None:
        try:
            raise_on_interrupt()
            command(**options)
        except PagedKVError as error:
            _fail(f"error: {error}", BAD_INPUT)
        except MemoryError:
            _fail("error: not enough memory for this run; ask for fewer blocks or requests", BAD_INPUT)
        except KeyboardInterrupt:
            _fail("interrupted", INTERRUPTED)
        finally:
            end_on_interrupt()

    return reported


def _fail(message: str, code: int) -> None:
    print(message, file=sys.stderr)
    raise typer.Exit(code)
