"""Prefix reuse: its section in the dashboard of a run, and the dashboard of a replay of the cache alone."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from pagedkv.report.document import Document
from pagedkv.report.model import Line, Report, Section
from pagedkv.report.quantities import count, percent, size
from pagedkv.report.run import banner, skipped_rows


def reuse_section(figures: dict[str, Any], config: dict[str, Any]) -> tuple[Section, ...]:
    """Return the section of a run with prefix caching, none of one without. Pure."""
    if not config.get("prefix_caching"):
        return ()
    lines = (
        _rate("hit rate, tokens", figures["token_hit_rate"], figures["hit_tokens"], figures["queried_tokens"]),
        _rate("hit rate, full blocks", figures["block_hit_rate"], figures["hit_blocks"], figures["queried_blocks"]),
        Line("prefill tokens saved", count(figures["hit_tokens"]), f"{count(figures['computed_tokens'])} computed"),
        Line("blocks shared, peak", count(figures["peak_saved_blocks"]), "that several running requests hold"),
        Line("blocks revived", count(figures["revived_blocks"]), "back from the cache with their content"),
        *_cache(figures, config),
    )
    return (Section("Prefix reuse", lines),)


def cache_dashboard(document: Document) -> Report:
    """Return the report of a replay of the cache alone. Pure."""
    config, figures, trace = document["config"], document["figures"], document["trace"]
    done = f"{count(figures['completed'])} of {count(figures['requests'])} requests replayed"
    failed = "; ".join(document["failures"])
    end = {"PASS": "the manager's checks hold", "INTERRUPTED": "stopped", "FAIL": failed}[document["outcome"]]
    return Report(
        title=f"pagedkv simulate {document['versions']['pagedkv']}",
        banner=banner(document),
        sections=(
            Section("Configuration", _configuration(config, trace)),
            Section("Requests", _requests(figures)),
            Section("Cache", (*_hits(figures), *_cache(figures, config))),
        ),
        notes=(*document["notes"], *skipped_rows(trace)),
        outcome=document["outcome"],
        closing=f"{done}; {end}",
    )


def _configuration(config: dict[str, Any], trace: dict[str, Any]) -> tuple[Line, ...]:
    block_bytes = config["block_size"] * config["token_bytes"]
    return (
        Line("trace", PurePath(trace["file"]).name, trace["format"]),
        Line("arrival", "one after another", "the cache alone: nothing runs at the same time"),
        Line("pool", f"{count(config['blocks'])} blocks", f"{size(block_bytes)} a block"),
        Line("block", f"{config['block_size']} tokens", f"{size(config['token_bytes'])} a token"),
    )


def _requests(figures: dict[str, Any]) -> tuple[Line, ...]:
    larger = figures["larger_than_pool"]
    return (
        Line("requests", count(figures["requests"])),
        Line("replayed", count(figures["completed"])),
        Line("larger than the pool", count(larger), "only their heads are kept" if larger else ""),
        Line("dropped rows", count(figures["dropped_rows_in_whole_file"]), "no prompt or no output"),
        Line("bad rows", count(figures["bad_rows_in_whole_file"]), "unreadable"),
    )


def _hits(figures: dict[str, Any]) -> tuple[Line, ...]:
    return (
        _rate("block hit", figures["block_hit"], figures["block_hits"], figures["blocks"]),
        _rate("full block hit", figures["full_block_hit"], figures["full_block_hits"], figures["full_blocks"]),
        _rate("token hit", figures["token_hit"], figures["token_hits"], figures["tokens"]),
        Line("prefill tokens saved", count(figures["token_hits"]), f"{count(figures['computed_tokens'])} computed"),
        Line("fully cached", f"{count(figures['fully_cached_requests'])} requests"),
        Line("different blocks", count(figures["unique_blocks"]), "a pool of so many evicts nothing"),
    )


def _cache(figures: dict[str, Any], config: dict[str, Any]) -> tuple[Line, ...]:
    return (
        Line("evictions", count(figures["evictions"]), "blocks that lost their content to another"),
        Line("cached at the end", f"{count(figures['cached_blocks'])} blocks", f"of {count(config['blocks'])}"),
    )


def _rate(label: str, rate: float | None, part: int, whole: int) -> Line:
    return Line(label, percent(rate), f"{count(part)} of {count(whole)}")
