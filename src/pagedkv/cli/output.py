"""Where a command's result goes: dashboard, plain lines or the closing line; JSON is the document's own."""

from __future__ import annotations

import sys
from pathlib import Path

from pagedkv.errors import InvalidArgumentError
from pagedkv.report.model import Report


def keep_apart(trace: str | None, json: str | None) -> None:
    """Refuse to write the document over the trace that it is about."""
    if trace is None or json is None or json == "-" or not exists(trace) or not exists(json):
        return
    if Path(trace).samefile(json):
        raise InvalidArgumentError(f"--json {json} is the trace itself; give another file")


def exists(path: str) -> bool:
    """Whether there is such a file or folder; False for what cannot be one (a name that is too long, say)."""
    try:
        return path != "" and Path(path).exists()
    except (OSError, ValueError):
        return False


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
