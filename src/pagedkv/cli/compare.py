"""`pagedkv compare`: two saved results side by side."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pagedkv.cli.files import keep_apart
from pagedkv.cli.options import flag_option, text_option
from pagedkv.cli.output import deliver


def compare(
    first: Annotated[str, typer.Argument(metavar="A.json", help="A result that was written with --json.")],
    second: Annotated[str, typer.Argument(metavar="B.json", help="Another one of the same command.")],
    json: Annotated[
        str | None, text_option("FILE", "Write the comparison as JSON; - is standard output, in the tables' place.")
    ] = None,
    report: Annotated[
        str | None, text_option("FILE", "Write an HTML page of the two; needs the extra `report`.")
    ] = None,
    quiet: Annotated[bool, flag_option("--quiet", "Print the closing line only.")] = False,
) -> None:
    """Compare two saved results: what differs in their configuration, then every figure with difference and ratio.

    Exit code: 0, or 2 for bad input, whatever the saved runs' outcomes were.
    """
    from pagedkv.report.comparison import compare_documents
    from pagedkv.report.comparison_report import comparison_report
    from pagedkv.report.html.compare_page import compare_page
    from pagedkv.report.saved import read_document

    keep_apart({"A.json": first, "B.json": second}, {"--json": json, "--report": report})
    documents = (read_document(first), read_document(second))

    def document(_progress: bool) -> dict[str, Any]:
        return compare_documents(documents, (first, second))

    deliver(
        document,
        comparison_report,
        json=json,
        quiet=quiet,
        html=report,
        page=lambda compared: compare_page(compared, documents),
    )
