"""`--report`, `pagedkv report` and `pagedkv compare`: the files they write, and what they refuse before a run."""

from __future__ import annotations

import importlib.util
import json
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest

from .conftest import Run

needs_extra = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("jinja2", "plotly")),
    reason="jinja2 and plotly are not installed; the extra `report` brings them",
)


@needs_extra
def test_a_report_beside_the_run_and_from_its_result_are_the_same(run: Run, trace: Path, tmp_path: Path) -> None:
    page, result, again = (tmp_path / name for name in ("run.html", "run.json", "again.html"))
    done = run("simulate", "--trace", trace, "--blocks", 64, "--report", page, "--json", result)
    assert (done.code, done.err) == (0, "")
    shown = run("report", result, "--output", again)
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.startswith(f"{again}: 4.")
    assert again.read_bytes() == page.read_bytes()
    text = page.read_text(encoding="utf-8")
    assert json.loads(result.read_text(encoding="utf-8"))["command_line"] in text.replace("&#39;", "'")
    assert 'data-chart="block-map"' in text


@needs_extra
def test_a_plan_and_a_replay_of_the_cache_have_pages(run: Run, tmp_path: Path) -> None:
    trace = tmp_path / "prompts.jsonl"
    rows = [{"timestamp": 0, "input_length": 1024, "output_length": 1, "hash_ids": [1, 2 + row]} for row in range(3)]
    trace.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    result, page = tmp_path / "run.json", tmp_path / "run.html"
    done = run("simulate", "--trace", trace, "--prefix-caching", "--cache-only", "--blocks", 8, "--json", result)
    assert done.code == 0, done.err
    assert run("report", result, "--output", page).code == 0
    done = run("plan", "--model", "Llama-3.1-8B", "--gpu", "H100", "--json", result)
    assert done.code == 0
    assert run("report", result, "--output", page).code == 0
    assert "Sequences that fit at once, by length" in page.read_text(encoding="utf-8")


@needs_extra
def test_a_plan_with_a_trace_shows_its_run(run: Run, trace: Path, tmp_path: Path) -> None:
    page, result, again = (tmp_path / name for name in ("plan.html", "plan.json", "again.html"))
    plan = ("plan", "--model", "Llama-3.1-8B", "--gpu", "L4", "--trace", trace, "--step-time", "roofline")
    done = run(*plan, "--report", page, "--json", result)
    assert (done.code, done.err) == (0, "")
    text = page.read_text(encoding="utf-8")
    for chart in ("plan", "time-lines", "block-maps", "gantt", "modeled"):
        assert f'id="{chart}"' in text, chart
    assert run("report", result, "--output", again).code == 0
    assert again.read_bytes() == page.read_bytes()


def test_the_command_line_can_be_typed_again(run: Run, tmp_path: Path) -> None:
    trace = tmp_path / "a trace.csv"
    trace.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03,48,10\n", encoding="utf-8")
    done = run("simulate", "--trace", trace, "--json", "-")
    assert done.document["command_line"] == f"pagedkv simulate --trace '{trace}' --json -"
    assert list(done.document).index("command_line") == list(done.document).index("versions") + 1


@pytest.fixture
def results(run: Run, trace: Path, tmp_path: Path) -> list[Path]:
    """Two results that differ in their pools."""
    files = []
    for blocks in (64, 128):
        files.append(tmp_path / f"{blocks}.json")
        run("simulate", "--trace", trace, "--blocks", blocks, "--json", files[-1])
    return files


def test_two_results_side_by_side(run: Run, results: list[Path], tmp_path: Path) -> None:
    done = run("compare", *results)
    assert (done.code, done.err) == (0, "")
    assert ["blocks", "64", "128"] in [line.split() for line in done.out.splitlines()]
    assert done.out.splitlines()[-1].startswith("PASS: 2 settings and ")
    document = run("compare", *results, "--json", "-").document
    figures = {one["key"]: one for one in document["figures"]}
    assert figures["peak_bytes"]["ratio"] == figures["peak_bytes"]["b"] / figures["peak_bytes"]["a"]
    assert document["command_line"] == f"pagedkv compare {results[0]} {results[1]} --json -"


@needs_extra
def test_two_results_in_one_page(run: Run, results: list[Path], tmp_path: Path) -> None:
    page = tmp_path / "two.html"
    assert run("compare", *results, "--report", page, "--quiet").code == 0
    assert "A: 64.json" in page.read_text(encoding="utf-8")


def test_a_missing_extra_is_an_error_before_the_run(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = importlib.util.find_spec

    def without(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name == "plotly" else found(name, package)

    monkeypatch.setattr("pagedkv.report.html.extra.find_spec", without)
    json_file, page = tmp_path / "run.json", tmp_path / "run.html"
    done = run("simulate", "--json", json_file, "--report", page)
    assert (done.code, done.out) == (2, "")
    assert 'pip install "pagedkv[report]"' in done.err
    assert not json_file.exists()
    assert not page.exists()


@needs_extra
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["simulate", "--report", "-"], "a report is a file to open in a browser"),
        (["simulate", "--report", "no/such/folder/a.html"], "cannot be written (No such file or directory)"),
        (["simulate", "--report", "same", "--json", "same"], "--report same is --json's file"),
        (["report", "missing.json", "--output", "a.html"], "cannot be read"),
    ],
)
def test_refused_before_the_run(arguments: list[str], message: str, run: Run, tmp_path: Path) -> None:
    done = run(*arguments)
    assert (done.code, done.out) == (2, "")
    assert message in done.err


@needs_extra
def test_what_a_page_holds_survives_a_run_that_fails(run: Run, tmp_path: Path) -> None:
    old, new = tmp_path / "old.html", tmp_path / "new.html"
    old.write_text("old", encoding="utf-8")
    for page in (old, new):
        assert run("simulate", "--device", "nowhere", "--report", page).code == 2
    assert old.read_text(encoding="utf-8") == "old"
    assert not new.exists()


@needs_extra
def test_ctrl_c_while_a_page_is_made_leaves_the_result_and_no_page(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupted(page: object) -> bytes:
        raise KeyboardInterrupt

    monkeypatch.setattr("pagedkv.report.html.render.render", interrupted)
    files = [tmp_path / "run.json", tmp_path / "run.html"]
    done = run("simulate", "--completions", 3, "--json", files[0], "--report", files[1])
    assert (done.code, done.err) == (130, "interrupted\n")
    assert [file.exists() for file in files] == [True, False]
    assert json.loads(files[0].read_text(encoding="utf-8"))["outcome"] == "PASS"
    assert run("report", files[0], "--output", files[1]).code == 130
    assert not files[1].exists()


def test_a_result_is_not_overwritten_by_its_page(run: Run, results: list[Path]) -> None:
    done = run("report", results[0], "--output", results[0])
    assert done.code == 2
    assert "give another file" in done.err
    assert json.loads(results[0].read_text(encoding="utf-8"))["command"] == "simulate"


def test_a_result_without_its_parts_is_an_error_and_no_page(run: Run, results: list[Path], tmp_path: Path) -> None:
    document: dict[str, Any] = json.loads(results[0].read_text(encoding="utf-8"))
    for part in ("figures", "config", "versions"):
        broken = tmp_path / "broken.json"
        broken.write_text(json.dumps({key: document[key] for key in document if key != part}), encoding="utf-8")
        done = run("report", broken, "--output", tmp_path / "a.html")
        assert (done.code, done.out) == (2, "")
        assert f"there is no '{part}'" in done.err
        assert not (tmp_path / "a.html").exists()
        done = run("compare", broken, results[1])
        assert done.code == 2
        assert f"there is no '{part}'" in done.err
