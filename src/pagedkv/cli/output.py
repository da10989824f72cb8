"""Where a command's result goes: dashboard, plain lines or the closing line; JSON is the document's own."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NoReturn

import typer

from pagedkv.report.model import Report

Document = dict[str, Any]


def deliver(
    make: Callable[[bool], Document], report: Callable[[Document], Report], *, json: str | None, quiet: bool
) -> NoReturn:
    """Make a command's document (`make` is told whether to show progress), show it, write it, exit by its outcome.

    What raises leaves nothing of the JSON file behind.
    """
    from pagedkv.cli.simulation_run import EXIT_CODES
    from pagedkv.report.document import JsonFile

    target = None if json is None else JsonFile(json)
    on_stdout = target is not None and target.is_stdout
    try:
        document = make(not (quiet or on_stdout))
    except BaseException:
        if target is not None:
            target.discard()
        raise
    # The dashboard first: should the file fail after all, the figures are not lost.
    show(report(document), quiet=quiet, json_on_stdout=on_stdout)
    if target is not None:
        target.write(document)
    raise typer.Exit(EXIT_CODES[document["outcome"]])


def show(report: Report, *, quiet: bool, json_on_stdout: bool) -> None:
    """Print the dashboard; beside JSON on standard output only a result that is not PASS, on standard error."""
    from pagedkv.report.plain import closing_line, plain_lines

    if json_on_stdout:
        if report.outcome != "PASS":
            print(closing_line(report), file=sys.stderr)
    elif quiet:
        print(closing_line(report))
    elif sys.stdout.isatty():
        from pagedkv.report.terminal import print_report

        print_report(report)
    else:
        print("\n".join(plain_lines(report)))
