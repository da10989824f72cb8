"""The report of the PagedAttention paper's Figure 15, parallel sampling of ShareGPT."""

from __future__ import annotations

from pathlib import PurePath

from pagedkv.report.document import Document
from pagedkv.report.model import Report, Section, Table
from pagedkv.report.quantities import count, percent, size
from pagedkv.report.reproductions.beside import bar_lines, beside_table, figure_report, largest_difference
from pagedkv.report.reproductions.figure import Figure

_WHOLE = 0.5  # of the blocks; no saving comes near


def _report(document: Document) -> Report:
    bars = document["bars"]
    drawing = Section("Blocks saved by sharing, ours", bar_lines(bars, _WHOLE, "| the ends of the printed range"))
    tables = beside_table(bars, "share of the blocks")
    if document["range_ends"]:
        tables += (_ends(document),)
    return figure_report(document, _banner(document), drawing if bars else None, tables, _closing(document))


def _banner(document: Document) -> tuple[str, ...]:
    config, trace = document["config"], document["trace"]
    return (
        "paper    PagedAttention, SOSP 2023, Figure 15: OPT-13B, ShareGPT, parallel sampling",
        f"trace    {PurePath(trace['file']).name}: {trace['format']}, {count(config['requests'])} requests below "
        f"{count(config['model_length'])} tokens, all at step 0",
        f"blocks   {config['block_size']} tokens of {size(config['token_bytes'])}",
        *(
            f"{one['name']:<8} the first {count(one['groups'])} over {count(one['blocks'])} blocks; {one['means']}"
            for one in config["methods"]
        ),
    )


def _ends(document: Document) -> Table:
    rows = tuple(
        (
            end["name"],
            percent(end["ours"]),
            f"{100 * end['printed']:.1f} %",
            f"{100 * (end['ours'] - end['printed']):+z.2f}",
        )
        for end in document["range_ends"]
    )
    return Table("The ends of the printed range", ("share of the blocks", "ours", "printed", "points"), rows)


def _closing(document: Document) -> str:
    if document["outcome"] == "INTERRUPTED":
        return f"stopped with {len(document['bars'])} savings known"
    bars, config = document["bars"], document["config"]
    ends = max(abs(end["ours"] - end["printed"]) for end in document["range_ends"])
    return (
        f"all {len(bars)} savings are within {100 * config['tolerance']:g} points of the paper's range, "
        f"{largest_difference(bars):.2f} outside of it at most; its ends are {100 * ends:.2f} points away at most"
    )


FIGURE = Figure(
    "sosp23-figure15",
    "PagedAttention, SOSP 2023, Figure 15, ShareGPT",
    "blocks saved by parallel samples that share their prompt",
    "the ShareGPT lengths of the paper's artifact, 84,226 pairs of OPT tokens",
    _report,
)
