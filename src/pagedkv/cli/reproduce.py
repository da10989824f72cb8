"""`pagedkv reproduce`: a figure of a paper, ours beside the printed one."""

from __future__ import annotations

from typing import Annotated

import typer

from pagedkv.cli.files import keep_apart
from pagedkv.cli.output import deliver
from pagedkv.errors import InvalidArgumentError


def reproduce(
    figure: Annotated[
        str | None, typer.Argument(metavar="FIGURE", help="A figure's name; without one, all are listed.")
    ] = None,
    trace: Annotated[str | None, typer.Option(metavar="FILE", help="The figure's requests.")] = None,
    list_all: Annotated[bool, typer.Option("--list", help="List all figures and what they need.")] = False,
    json: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Write the figures as JSON; - is standard output, in the table's place."),
    ] = None,
    report: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write an HTML page of the figure; needs the extra `report`.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the closing line only.")] = False,
) -> None:
    """Reproduce a figure of a paper, and print ours beside what is printed there.

    Exit code: 0 PASS, 1 FAIL (too far from the paper), 2 bad input, 130 interrupted.
    """
    from pagedkv.report.reproduction import find_figure, list_figures, reproduction_report

    if figure is None or list_all:
        if figure is not None or trace is not None or json is not None or report is not None or quiet:
            raise InvalidArgumentError("a list of all figures takes no other option; give a FIGURE, or --list alone")
        print("\n".join(list_figures()))
        return
    known = find_figure(figure)
    if trace is None:
        raise InvalidArgumentError(f"{figure} needs its requests, {known.trace}; give them with --trace FILE")
    keep_apart({"--trace": trace}, {"--json": json, "--report": report})

    from pagedkv.cli.reproduce_run import run_figure

    deliver(
        lambda progress: run_figure(figure, trace, show_progress=progress),
        reproduction_report,
        json=json,
        quiet=quiet,
        html=report,
    )
