"""Documents as the commands write them, made by rule: every value can be told from its place."""

from __future__ import annotations

from typing import Any

VERSIONS = {"pagedkv": "0.1.0", "python": "3.12.0", "numpy": "2.0.0", "platform": "Linux"}
HOSTILE = "</script><script>window.hacked=1</script><!--<img src=x onerror=window.hacked=1>&\u2028'\"${1}$%{y}"


def series(buckets: int, *, per_bucket: int = 2, gap_after: int | None = None) -> dict[str, Any]:
    """Return buckets of equally many steps; after bucket `gap_after`, ten steps were idle."""
    first = [
        bucket * per_bucket + (10 if gap_after is not None and bucket > gap_after else 0) for bucket in range(buckets)
    ]
    ramp = [bucket % 50 for bucket in range(buckets)]

    def level(scale: int) -> dict[str, list[float]]:
        return {
            "min": [scale * value for value in ramp],
            "mean": [scale * (value + 0.5) for value in ramp],
            "max": [scale * (value + 1) for value in ramp],
        }

    return {
        "steps_per_bucket": per_bucket,
        "first_step": first,
        "last_step": [step + per_bucket - 1 for step in first],
        "allocated_blocks": level(1),
        "stored_tokens": level(12),
        "running": level(2),
        "waiting": level(3),
        "preemptions": [bucket % 3 == 0 for bucket in range(buckets)],
        "completed": [1] * buckets,
        "rejected": [0] * buckets,
        "queried_tokens": [16 * (bucket % 2) for bucket in range(buckets)],
        "hit_tokens": [4 * (bucket % 2) for bucket in range(buckets)],
        "evictions": [bucket % 5 for bucket in range(buckets)],
        "seconds": None,
    }


def block_map(blocks: int, moments: int, *, block_stride: int = 2) -> dict[str, Any]:
    """Return a map whose cells go through every state and many owners."""
    return {
        "block_stride": block_stride,
        "blocks": [block * block_stride for block in range(blocks)],
        "steps": [4 * moment for moment in range(moments)],
        "step_stride": 4,
        "cells": [[(7 * block + 3 * moment) % 1000 - 4 for moment in range(moments)] for block in range(blocks)],
    }


def sequences(requests: int, spans: int) -> dict[str, Any]:
    """Return requests that wait one step before each of their spans of two, all but the last one preempted."""
    return {
        "stride": 3,
        "of": 3 * requests,
        "request": [3 * place for place in range(requests)],
        "arrival_step": list(range(requests)),
        "prompt_tokens": [10 + place for place in range(requests)],
        "output_tokens": [5] * requests,
        "segments": [
            [3 * place, place + 1 + 3 * span, place + 2 + 3 * span, "preempted" if span + 1 < spans else "completed"]
            for place in range(requests)
            for span in range(spans)
        ],
    }


def simulation(**changed: Any) -> dict[str, Any]:
    """Return a document of `pagedkv simulate` with prefix caching and a small history."""
    figures = dict.fromkeys(_COUNTS, 3) | dict.fromkeys(_SHARES, 0.25) | {"external_fragmentation": 0.0}
    document = {
        "schema": 1,
        "command": "simulate",
        "outcome": "PASS",
        "versions": dict(VERSIONS),
        "command_line": "pagedkv simulate --trace 'a file.csv'",
        "device": {"name": "null", "description": "none", "reason": "auto", "free_bytes": None, "total_bytes": None},
        "config": {
            "blocks": 100, "block_size": 16, "token_bytes": 512, "pool_bytes": 819200, "concurrency": None,
            "max_seqs": None, "watermark": 0, "prefix_caching": True, "verify": False, "samples": 1, "beam_width": 1,
            "admission": "grow", "step_ms": None, "closed_loop": False, "completions": 3, "seed": 42,
            "cache_only": False,
        },
        "figures": figures | {"peak_bytes": 2**20, "contiguous_max_bytes": 3 * 2**20, "peak_factor_vs_contiguous": 3.0},
        "systems": None,
        "rejections": [],
        "trace": {"file": "a file.csv", "format": "azure-csv", "rows": 3, "dropped_rows": 0, "bad_rows": 0,
                  "was_sorted": True, "skipped": []},
        "verification": None,
        "history": {"series": series(4), "block_map": block_map(3, 5), "sequences": sequences(3, 2)},
        "failures": [],
        "notes": [],
    }  # fmt: skip
    return document | changed


def system(reservation: str | None, token_states: float, *, steps: int = 9) -> dict[str, Any]:
    """Return a contiguous system, or the paged one (None), that wastes the rest of the pool in equal parts."""
    rest = (1 - token_states) / 3
    means = {
        "token_states": token_states,
        "reservation": rest,
        "internal": rest,
        "external_and_free": rest,
        "running": 2.0,
    }
    return {
        "reservation": reservation,
        "placement": None if reservation is None else "first_fit",
        "interrupted": False,
        "figures": {"requests": 3, "rejected": 0, "steps": steps, "mean": means, "saturated": means},
    }


def reproduction(**changed: Any) -> dict[str, Any]:
    """Return a document of `pagedkv reproduce`."""
    document = {
        "schema": 1,
        "command": "reproduce",
        "figure": "sosp23-figure2",
        "paper": "PagedAttention, SOSP 2023, Figure 2",
        "title": "use of the pool",
        "outcome": "PASS",
        "versions": dict(VERSIONS),
        "command_line": "pagedkv reproduce sosp23-figure2 --trace requests.csv",
        "config": {"blocks": 983, "block_size": 16, "token_bytes": 819200, "max_seq_len": 2048, "watermark": 9,
                   "placement": "buddy", "tolerance": 0.015},
        "systems": [system(None, 0.96), system("max", 0.2)],
        "bars": [
            {"group": "paged", "label": "token states", "ours": 0.964, "printed": 0.963, "difference": 0.001,
             "unit": "fraction"},
            {"group": "paged", "label": "internal", "ours": 0.02, "printed": None, "difference": None,
             "unit": "fraction"},
            {"group": "max, buddy", "label": "internal", "ours": 0.56, "printed": [0.573, 0.6], "difference": -0.013,
             "unit": "fraction"},
        ],
        "shares": [],
        "trace": {"file": "requests.csv", "format": "input-output-csv", "rows": 3, "dropped_rows": 0, "bad_rows": 0,
                  "was_sorted": True, "skipped": []},
        "failures": [],
        "notes": [],
    }  # fmt: skip
    return document | changed


def largest() -> dict[str, Any]:
    """Return a document with the most history that a run can leave."""
    history = {
        "series": series(1000, per_bucket=4096),
        "block_map": block_map(256, 400),
        "sequences": sequences(400, 25),
    }
    return simulation(history=history | {"sequences": history["sequences"]}, systems=[system(None, 0.9)] * 10)


_COUNTS = (
    "requests", "completed", "rejected", "dropped_rows_in_whole_file", "bad_rows_in_whole_file", "steps",
    "saturated_steps", "peak_running", "total_token_allocs", "total_block_allocs", "total_block_frees", "preemptions",
    "recomputed_tokens", "peak_blocks", "final_blocks", "queried_tokens", "hit_tokens", "computed_tokens",
    "queried_blocks", "hit_blocks", "peak_saved_blocks", "revived_blocks", "evictions", "cached_blocks",
    "contiguous_sequences", "contiguous_max_seq_len",
)  # fmt: skip
_SHARES = (
    "mean_running", "mean_blocks", "peak_block_utilization", "mean_block_utilization", "final_block_utilization",
    "mean_token_utilization", "mean_internal_fragmentation", "pooled_internal_fragmentation", "token_hit_rate",
    "block_hit_rate", "peak_saving_vs_contiguous", "mean_saving_vs_contiguous",
)  # fmt: skip
