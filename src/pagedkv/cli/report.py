"""`pagedkv report`: the HTML page of a saved result."""

from __future__ import annotations

from typing import Annotated

import typer

from pagedkv.cli.files import keep_apart


def report(
    result: Annotated[
        str, typer.Argument(metavar="RESULT.json", help="What simulate, plan or reproduce wrote with --json.")
    ],
    output: Annotated[str, typer.Option(metavar="FILE.html", help="The page to write.")],
) -> None:
    """Make the HTML page of a saved result: one file that opens offline. Needs the extra `report`.

    Exit code: 0, or 2 for bad input, whatever the saved run's outcome was.
    """
    from pagedkv.report.html.html_file import HtmlFile
    from pagedkv.report.quantities import size
    from pagedkv.report.saved import read_page

    keep_apart({"RESULT.json": result}, {"--output": output})
    page = read_page(result)
    print(f"{output}: {size(HtmlFile(output).write(page))}")
