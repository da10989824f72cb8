"""The report of the Mooncake paper's Figure 9."""

from __future__ import annotations

from pathlib import PurePath

from pagedkv.report.document import Document
from pagedkv.report.model import Report, Section
from pagedkv.report.reproductions.beside import bar_lines, beside_table, figure_report, largest_difference
from pagedkv.report.reproductions.figure import Figure


def _report(document: Document) -> Report:
    bars = document["bars"]
    drawing = Section("Blocks found, ours", bar_lines(bars, 1.0, "| printed")) if bars else None
    tables = beside_table(bars, "hit rate by capacity", decimals=2)
    return figure_report(document, _banner(document), drawing, tables, _closing(document))


def _banner(document: Document) -> tuple[str, ...]:
    config, trace = document["config"], document["trace"]
    return (
        f"paper    Mooncake, FAST 2025, Figure 9, {document['curve']}: the hit rate of a prefix cache by its capacity",
        f"trace    {PurePath(trace['file']).name}: {trace['format']}, in file order from an empty cache",
        f"blocks   {config['tokens_per_id']} tokens, of which a prompt's last has fewer: "
        f"{config['tokens_a_block']:.2f} in the mean",
        "cache    least recently used first, the tail of a prompt before its head; rates are of full blocks",
    )


def _closing(document: Document) -> str:
    bars = document["bars"]
    if document["outcome"] == "INTERRUPTED":
        return f"stopped with {len(bars)} capacities known"
    tolerance = f"{100 * document['config']['tolerance']:g}"
    largest = largest_difference(bars)
    return f"all {len(bars)} hit rates are within {tolerance} point of the paper's; the largest is {largest:.2f}"


FIGURE = Figure(
    "fast25-figure9",
    "Mooncake, FAST 2025, Figure 9",
    "the hit rate of a prefix cache by its capacity",
    "the paper's synthetic_trace.jsonl (or conversation_trace.jsonl, which is off: see the note that it prints)",
    _report,
)
