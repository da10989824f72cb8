"""The history in the document of `pagedkv simulate`: there with JSON, small, and in agreement with the figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .conftest import Run


def test_the_document_has_the_history_of_its_run(run: Run, trace: Path) -> None:
    document = run("simulate", "--trace", trace, "--blocks", 40, "--json", "-").document
    figures, history = document["figures"], document["history"]
    series, block_map, sequences = history["series"], history["block_map"], history["sequences"]
    assert sum(series["preemptions"]) == figures["preemptions"] > 0
    assert sum(series["completed"]) == figures["completed"] == 38
    assert max(series["allocated_blocks"]["max"]) == figures["peak_blocks"]
    assert max(series["running"]["max"]) == figures["peak_running"]
    assert series["seconds"] is None
    assert len(block_map["cells"]) == len(block_map["blocks"]) == 40
    assert {len(row) for row in block_map["cells"]} == {len(block_map["steps"])}
    assert sequences["request"] == list(range(38))
    assert sum(how == "preempted" for *_, how in sequences["segments"]) == figures["preemptions"]


def test_the_base_case_takes_few_lines_and_shows_the_blocks_that_it_uses(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    run("simulate", "--no-verify", "--json", file)
    text = file.read_text(encoding="utf-8")
    assert text.count("\n") < 700
    block_map: dict[str, Any] = json.loads(text)["history"]["block_map"]
    assert (block_map["block_stride"], len(block_map["blocks"])) == (1, 256)
    assert sum(max(row) >= 0 for row in block_map["cells"]) > 60


def test_hits_and_evictions_are_in_the_history(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "own.jsonl"
    row = '{{"arrival_ms": {}, "prompt_tokens": 64, "output_tokens": 4, "prefix": "{}", "prefix_tokens": 48}}'
    file.write_text("\n".join(row.format(100 * i, "ab"[i // 2 % 2]) for i in range(12)), encoding="utf-8")
    options = ("--trace", file, "--step-ms", 100, "--blocks", 8, "--prefix-caching")
    document = run("simulate", *options, "--json", "-").document
    figures, series = document["figures"], document["history"]["series"]
    for name in ("queried_tokens", "hit_tokens", "evictions"):
        assert sum(series[name]) == figures[name] > 0
    assert any(-2 in row for row in document["history"]["block_map"]["cells"])


def test_a_replay_of_the_cache_alone_has_none(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "ids.jsonl"
    header = '{"pagedkv_trace": 1, "tokens_per_id": 16}\n'
    rows = ['{"prompt_tokens": 32, "output_tokens": 1, "hash_ids": [1, 2]}\n'] * 3
    file.write_text(header + "".join(rows), encoding="utf-8")
    options = ("--trace", file, "--prefix-caching", "--cache-only", "--json", "-")
    assert run("simulate", *options).document["history"] is None
