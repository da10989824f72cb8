"""`pagedkv reproduce`: a figure of a paper, ours beside the printed one."""

from __future__ import annotations

from typing import Annotated

import typer

from pagedkv.cli.files import keep_apart
from pagedkv.cli.output import deliver
from pagedkv.errors import InvalidArgumentError

FIGURES = ("sosp23-figure2",)


def reproduce(
    figure: Annotated[str, typer.Argument(metavar="FIGURE", help=f"One of {', '.join(FIGURES)}.")],
    trace: Annotated[str, typer.Option(metavar="FILE", help="The figure's requests.")],
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
    from pagedkv.cli.reproduce_run import run_figure2
    from pagedkv.report.reproduction import reproduction_report

    if figure not in FIGURES:
        raise InvalidArgumentError(f"figure {figure!r} is not known; give one of {', '.join(FIGURES)}")
    keep_apart({"--trace": trace}, {"--json": json, "--report": report})
    deliver(
        lambda progress: run_figure2(trace, show_progress=progress),
        reproduction_report,
        json=json,
        quiet=quiet,
        html=report,
    )
