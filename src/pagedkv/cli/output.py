"""Where a command's result goes: dashboard, plain lines or the closing line; JSON is the document's own."""

from __future__ import annotations

import sys

from pagedkv.report.model import Report


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
