"""Carries out `pagedkv reproduce sosp23-figure2`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pagedkv.cli.reproduce_document import bar, figure_document
from pagedkv.cli.simulation_signal import interruptible
from pagedkv.report.document import Document
from pagedkv.report.progress import RunProgress
from pagedkv.report.reproductions.sosp23_figure2 import SHARE_NAMES
from pagedkv.report.systems import SHARES, system_name
from pagedkv.simulate import Trace
from pagedkv.simulate.sosp23_figure2 import (
    MAX_SEQ_LEN,
    PLACEMENT,
    POOL,
    PRINTED,
    REQUESTS,
    TOLERANCE,
    Figure2,
    Figure2Result,
)


def run_sosp23_figure2(trace: Trace, show_progress: bool) -> Document:
    """Run and return the document. Ctrl-C ends the run after its step."""
    with RunProgress("requests", len(PRINTED) * len(trace.workload), enabled=show_progress) as progress:
        figure = Figure2(trace.workload, on_progress=progress.update)
        with interruptible(figure):
            result = figure.run()
    shares = [asdict(share) | {"difference": share.difference} for share in result.shares]
    more = {"systems": [asdict(system) for system in result.systems], "shares": shares}
    notes = _notes(trace, result)
    return figure_document(
        "sosp23-figure2", trace, result, config=_config(), bars=_bars(result), notes=notes, more=more
    )


def _bars(result: Figure2Result) -> list[dict[str, Any]]:
    """Return all shares of all systems, of which some are printed; none of a run that was stopped."""
    if not result.shares:
        return []
    known = {(one.reservation, one.share): one for one in result.shares}
    bars = []
    for system in result.systems:
        means = system.figures["saturated"]
        for share in SHARES if means is not None else ():
            one = known.get((system.reservation, share))
            printed, difference = (None, None) if one is None else (one.printed, one.difference)
            bars.append(bar(system_name(asdict(system)), SHARE_NAMES[share], means[share], printed, difference))
    return bars


def _config() -> dict[str, Any]:
    return {
        "blocks": POOL.num_blocks,
        "pool_bytes": POOL.nbytes,
        "block_size": POOL.layout.block_size,
        "token_bytes": POOL.layout.token_bytes,
        "max_seq_len": MAX_SEQ_LEN,
        "watermark": POOL.watermark,
        "placement": PLACEMENT,
        "tolerance": TOLERANCE,
    }


def _notes(trace: Trace, result: Figure2Result) -> list[str]:
    notes = []
    if (requests := len(trace.workload)) != REQUESTS:
        notes.append(f"the paper's sequence has {REQUESTS:,} requests, this trace {requests:,}: it is another load")
    if rejected := max(system.figures["rejected"] for system in result.systems):
        notes.append(f"{rejected:,} requests are longer than {MAX_SEQ_LEN:,} tokens and take no part in some system")
    return notes
