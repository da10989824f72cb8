"""The report of `pagedkv reproduce`, from its JSON document alone: bars, and ours beside the printed figures."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from pagedkv.report.document import Document
from pagedkv.report.model import Line, Report, Section, Table
from pagedkv.report.quantities import count, percent, size
from pagedkv.report.run import skipped_rows
from pagedkv.report.systems import SHARES, system_name

BAR = 60  # characters for a whole pool
_MARKS = "#=-."
_WORDS = {
    "token_states": "token states",
    "reservation": "reservation",
    "internal": "internal",
    "external_and_free": "external, free",
}


def reproduction_report(document: Document) -> Report:
    """Return the report. Pure."""
    return Report(
        title=f"pagedkv reproduce {document['figure']}, pagedkv {document['versions']['pagedkv']}",
        banner=_banner(document),
        sections=(Section("Use of the pool, ours", _bars(document)),) if document["shares"] else (),
        notes=(*document["notes"], *skipped_rows(document["trace"])),
        outcome=document["outcome"],
        closing=_closing(document),
        tables=_tables(document["shares"]),
    )


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
    legend = ", ".join(f"{mark} {_WORDS[share]}" for mark, share in zip(_MARKS, SHARES, strict=True))
    return (*lines, Line("legend", legend))


def bar(means: dict[str, float] | None) -> str:
    """Return a bar of 60 characters for the whole pool; empty without means. Pure."""
    if means is None:
        return ""
    text, total = "", 0.0
    for mark, share in zip(_MARKS, SHARES, strict=True):
        total += means[share]
        text += mark * (round(total * BAR) - len(text))
    return text


def _tables(shares: list[dict[str, Any]]) -> tuple[Table, ...]:
    if not shares:
        return ()
    rows = tuple(
        (
            f"{system_name(one)}: {_WORDS[one['share']]}",
            percent(one["ours"]),
            f"{one['printed']:.1%}".replace("%", " %"),
            f"{100 * one['difference']:+z.2f}",
        )
        for one in shares
    )
    return (Table("Ours beside the paper's", ("share of the pool", "ours", "printed", "points"), rows),)


def _closing(document: Document) -> str:
    shares, tolerance = document["shares"], f"{100 * document['config']['tolerance']:g}"
    if document["outcome"] == "FAIL":
        return "; ".join(document["failures"])
    if document["outcome"] == "INTERRUPTED":
        return f"stopped with {len(document['systems'])} systems begun"
    largest = max(abs(share["difference"]) for share in shares)
    return f"all {len(shares)} shares are within {tolerance} points of the paper's; the largest is {100 * largest:.2f}"
