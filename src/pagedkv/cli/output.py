"""Where a command's result goes: dashboard, plain lines or the closing line; JSON is the document itself; a page."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from pagedkv.report.model import Report

if TYPE_CHECKING:
    from pagedkv.report.document import JsonFile
    from pagedkv.report.html.html_file import HtmlFile
    from pagedkv.report.html.page import Page

Document = dict[str, Any]


def deliver(
    make: Callable[[bool], Document],
    report: Callable[[Document], Report],
    *,
    json: str | None,
    quiet: bool,
    html: str | None = None,
    page: Callable[[Document], Page] | None = None,
) -> NoReturn:
    """Make a command's document (`make` is told whether to show progress), show it, write it, exit by its outcome.

    html: the file of its page; page: makes it from the document, by default as of the command. What raises, Ctrl-C
    too, leaves no file behind that it did not finish.
    """
    from pagedkv.cli.simulation_run import EXIT_CODES
    from pagedkv.report.document import command_line

    with _written(json, html) as (json_file, html_file):
        on_stdout = json_file is not None and json_file.is_stdout
        document = _with_command_line(make(not (quiet or on_stdout)), command_line())
        # The dashboard first: should a file fail after all, the figures are not lost.
        show(report(document), quiet=quiet, json_on_stdout=on_stdout)
        if json_file is not None:
            json_file.write(document)
        if html_file is not None:
            from pagedkv.report.html.page import page_of

            html_file.write((page or page_of)(document))
    raise typer.Exit(EXIT_CODES[document["outcome"]])


@contextmanager
def _written(json: str | None, html: str | None) -> Iterator[tuple[JsonFile | None, HtmlFile | None]]:
    """Open the files of a command; an error in the block, or of the second file, leaves neither behind."""
    from pagedkv.report.document import JsonFile

    json_file: JsonFile | None = None
    html_file: HtmlFile | None = None
    with ExitStack() as on_error:
        if json is not None:
            json_file = JsonFile(json)
            on_error.callback(json_file.discard)
        if html is not None:
            from pagedkv.report.html.html_file import HtmlFile

            html_file = HtmlFile(html)
            on_error.callback(html_file.discard)
        yield json_file, html_file
        on_error.pop_all()


def _with_command_line(document: Document, command: str) -> Document:
    """Return the document with its command line beside the versions."""
    items = list(document.items())
    place = list(document).index("versions") + 1
    return dict([*items[:place], ("command_line", command), *items[place:]])


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
