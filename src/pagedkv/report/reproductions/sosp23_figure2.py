"""The report of the PagedAttention paper's Figure 2."""

from __future__ import annotations

from pathlib import PurePath

from pagedkv.report.document import Document
from pagedkv.report.model import Line, Report, Section
from pagedkv.report.quantities import count, size
from pagedkv.report.reproductions.beside import BAR, beside_table, figure_report, largest_difference
from pagedkv.report.reproductions.figure import Figure
from pagedkv.report.systems import SHARES, system_name

SHARE_NAMES = {
    "token_states": "token states",
    "reservation": "reservation",
    "internal": "internal",
    "external_and_free": "external, free",
}
_MARKS = "#=-."


def _report(document: Document) -> Report:
    bars = document["bars"]
    drawing = Section("Use of the pool, ours", _bars(document)) if bars else None
    table = beside_table(bars, "share of the pool")
    return figure_report(document, _banner(document), drawing, table, _closing(document))


def _banner(document: Document) -> tuple[str, ...]:
    config, trace = document["config"], document["trace"]
    return (
        "paper    PagedAttention, SOSP 2023, Figure 2: OPT-13B, ShareGPT; means over the steps with a queue",
        f"trace    {PurePath(trace['file']).name}: {trace['format']}, all at step 0",
        f"pool     {count(config['blocks'])} blocks of {config['block_size']} tokens, {size(config['token_bytes'])} a "
        f"token; paged: watermark {config['watermark']}",
        f"systems  paged, and reservations of up to {count(config['max_seq_len'])} tokens placed by "
        f"{config['placement']}",
    )


def _bars(document: Document) -> tuple[Line, ...]:
    lines = [Line(system_name(one), bar(one["figures"]["saturated"])) for one in document["systems"]]
    legend = ", ".join(f"{mark} {SHARE_NAMES[share]}" for mark, share in zip(_MARKS, SHARES, strict=True))
    return (*lines, Line("legend", legend))


def bar(means: dict[str, float] | None) -> str:
    """Return a bar of 60 characters for the whole pool; empty without means. Pure."""
    if means is None:
        return ""
    text, total = "", 0.0
    for mark, share in zip(_MARKS, SHARES, strict=True):
        total = min(total + means[share], 1.0)
        text += mark * (round(total * BAR) - len(text))
    return text


def _closing(document: Document) -> str:
    if document["outcome"] == "INTERRUPTED":
        return f"stopped with {len(document['systems'])} systems begun"
    shares, tolerance = len(document["shares"]), f"{100 * document['config']['tolerance']:g}"
    largest = largest_difference(document["bars"])
    return f"all {shares} shares are within {tolerance} points of the paper's; the largest is {largest:.2f}"


FIGURE = Figure(
    "sosp23-figure2",
    "PagedAttention, SOSP 2023, Figure 2",
    "what a pool's memory is used for: paged, and contiguous reservations placed by buddy",
    "the 3,604 requests that the paper's artifact draws from ShareGPT: 4 a second, 900 s, seed 0",
    _report,
)
