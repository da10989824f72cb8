"""`pagedkv sweep`: many configurations of `pagedkv simulate`, each of them run once."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pagedkv.cli.files import keep_apart
from pagedkv.cli.options import flag_option, text_option, whole_option
from pagedkv.cli.output import deliver


def sweep(
    spec: Annotated[str, typer.Argument(metavar="SPEC.toml", help="Fixed options, and a grid of values.")],
    store: Annotated[
        str | None, text_option("DIR", "Keep results here, and find them again.  [default: SPEC.results]")
    ] = None,
    workers: Annotated[int | None, whole_option("N", "Processes on this machine.  [default: one a CPU]")] = None,
    dask: Annotated[
        str | None, text_option("ADDRESS", "A Dask scheduler's, instead: tcp://HOST:PORT on loopback, or tls://.")
    ] = None,
    csv: Annotated[str | None, text_option("FILE", "Write all figures as a table, a row a configuration.")] = None,
    json: Annotated[
        str | None, text_option("FILE", "Write all figures as JSON; - is standard output, in the table's place.")
    ] = None,
    quiet: Annotated[bool, flag_option("--quiet", "Print the closing line only.")] = False,
) -> None:
    """Run every configuration of a grid over block size, pool, policy, trace, seed; results are kept and found again.

    Exit code: 0 PASS, 1 a configuration failed, 2 bad input, 130 interrupted (run it again to go on).
    """
    # Imported here: `pagedkv --version` and `doctor` must work where a part of the package does not.
    from pagedkv.cli.sweep_run import SweepOptions, run_sweep_document
    from pagedkv.report.output_file import OutputFile
    from pagedkv.report.sweep import sweep_dashboard
    from pagedkv.report.sweep_csv import csv_text

    keep_apart({"SPEC.toml": spec}, {"--json": json, "--csv": csv})
    table = None if csv is None else OutputFile(csv, "CSV file", "give a writable path")

    def document(progress: bool) -> dict[str, Any]:
        options = SweepOptions(spec, store=store, workers=workers, dask=dask, csv=csv, json=json)
        try:
            made = run_sweep_document(options, show_progress=progress)
        except BaseException:
            if table is not None:
                table.discard()
            raise
        if table is not None:
            table.write(csv_text(made).encode())
        return made

    deliver(document, sweep_dashboard, json=json, quiet=quiet)
