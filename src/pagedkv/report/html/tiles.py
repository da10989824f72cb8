"""The few figures of a document that are read first."""

from __future__ import annotations

from pagedkv.report.document import Document
from pagedkv.report.model import Line
from pagedkv.report.plan import verdict
from pagedkv.report.quantities import count, percent, size
from pagedkv.report.reproductions.beside import largest_difference


def tiles(document: Document) -> tuple[Line, ...]:
    """Return four to six figures with what they are of. Pure."""
    if document["command"] == "plan":
        return _plan(document)
    if document["command"] == "reproduce":
        return _reproduction(document)
    return _cache(document) if document["config"].get("cache_only") else _simulation(document)


def _simulation(document: Document) -> tuple[Line, ...]:
    figures, config = document["figures"], document["config"]
    hits = Line("hit rate", percent(figures.get("token_hit_rate")), "of looked-up prompt tokens")
    return (
        Line("completed", count(figures["completed"]), f"of {count(figures['requests'])} requests"),
        Line(
            "peak utilization",
            percent(figures["peak_block_utilization"]),
            f"{count(figures['peak_blocks'])} of {count(config['blocks'])} blocks",
        ),
        Line("waste", percent(figures["pooled_internal_fragmentation"]), "of the token places in blocks in use"),
        Line("preemptions", count(figures["preemptions"]), f"{count(figures['recomputed_tokens'])} tokens again"),
        *((hits,) if config.get("prefix_caching") else ()),
        Line("saved at the peak", percent(figures["peak_saving_vs_contiguous"]), "against the longest length reserved"),
    )


def _cache(document: Document) -> tuple[Line, ...]:
    figures = document["figures"]
    return (
        Line("replayed", count(figures["completed"]), f"of {count(figures['requests'])} requests"),
        Line("token hit rate", percent(figures["token_hit"]), f"{count(figures['token_hits'])} tokens"),
        Line("block hit rate", percent(figures["block_hit"]), f"{count(figures['block_hits'])} blocks"),
        Line("evictions", count(figures["evictions"]), "blocks"),
    )


def _reproduction(document: Document) -> tuple[Line, ...]:
    bars = [bar for bar in document["bars"] if bar["printed"] is not None]
    if not bars:
        return ()
    allowed = f"allowed: {100 * document['config']['tolerance']:g}"
    return (
        Line("values compared", count(len(bars)), "ours against printed"),
        Line("farthest apart", f"{largest_difference(bars):.2f} points", allowed),
        Line("requests", count(document["trace"]["rows"]), "rows of the trace"),
    )


def _plan(document: Document) -> tuple[Line, ...]:
    pool, fits, simulation = document["pool"], document["sequences"], document["simulation"]
    shown = [fits[0], fits[-1]] if len(fits) > 1 else fits
    return (
        Line("pool of one GPU", size(pool["bytes"]), f"{count(pool['blocks'])} blocks"),
        Line("a token", size(document["kv"]["token_bytes"]), "keys and values, one GPU"),
        *(Line(f"{count(one['length'])} tokens", count(one["sequences"]), "sequences at once") for one in shown),
        *((Line("the trace", verdict(simulation), "simulated"),) if simulation is not None else ()),
    )
