"""`pagedkv reproduce`: the other figures, their documents, the list of all, and those that cannot be reproduced."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pagedkv.cli.reproduce_run import RUNS
from pagedkv.report.reproduction import FIGURES, reproduction_report
from pagedkv.report.reproductions.beside import bar_lines, beside_table
from pagedkv.report.reproductions.out_of_reach import OUT_OF_REACH
from pagedkv.simulate import sosp23_figure15
from pagedkv.simulate.fast25_figure9 import Figure9
from pagedkv.simulate.sosp23_figure15 import Figure15

from .conftest import Run

BAR_KEYS = {"group", "label", "ours", "printed", "difference", "unit"}


@pytest.fixture
def few_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of the groups: the whole figure is a test of the simulator."""
    fewer = tuple(replace(method, groups=method.groups // 10) for method in sosp23_figure15.METHODS)
    monkeypatch.setattr(sosp23_figure15, "METHODS", fewer)
    monkeypatch.setattr("pagedkv.cli.reproduce_sosp23_figure15.METHODS", fewer)


def check_bars(document: dict[str, Any]) -> None:
    for one in document["bars"]:
        assert set(one) == BAR_KEYS
        assert one["unit"] == "fraction"
        low, high = one["printed"] if isinstance(one["printed"], list) else [one["printed"]] * 2
        assert one["difference"] == (min(0.0, one["ours"] - low) or max(0.0, one["ours"] - high))


def test_figure_15(run: Run, traces: Path, few_groups: None) -> None:
    trace = traces / "sharegpt-opt-sosp23" / "sharegpt_opt_text_completion_length.csv"
    done = run("reproduce", "sosp23-figure15", "--trace", trace)
    assert done.err == ""
    lines = done.out.splitlines()
    assert "pooled   the first 2,000 over 2,097,152 blocks; all at once, blocks summed over all steps" in lines
    assert "  pooled: 2 samples    16.08 %  16.2 - 30.5 %   -0.12" in lines
    assert "  pooled: the least saving     16.08 %   16.2 %   -0.12" in lines
    document = run("reproduce", "sosp23-figure15", "--trace", trace, "--json", "-").document
    assert document["outcome"] == lines[-1].split(":")[0]
    check_bars(document)
    assert [(one["group"], one["label"]) for one in document["bars"]] == [
        (method, f"{samples} samples") for method in ("pooled", "replay") for samples in (2, 4, 6)
    ]
    assert [one["saving"] for one in document["savings"]] == [one["ours"] for one in document["bars"]]
    assert document["bars"][0]["printed"] == [0.162, 0.305]


def test_figure_15_of_another_load(run: Run, trace: Path) -> None:
    done = run("reproduce", "sosp23-figure15", "--trace", trace)
    assert done.code == 1
    lines = done.out.splitlines()
    assert (
        "note: the paper's list has 79,725 requests below 2,048 tokens, this trace 38 of 38: it is another load"
        in lines
    )
    assert "3 of 6 runs have no step with a queue" in lines[-1]
    assert "n/a" in done.out


def test_figure_9(run: Run, traces: Path) -> None:
    trace = traces / "mooncake-fast25" / "synthetic_trace.jsonl"
    done = run("reproduce", "fast25-figure9", "--trace", trace)
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert "  5,000,000 tokens      43.68 %  43.52 %   +0.16" in lines
    assert "  5,000,000 tokens:        ##########################|" in lines
    assert lines[-1] == "PASS: all 10 hit rates are within 1 point of the paper's; the largest is 0.62"
    document = run("reproduce", "fast25-figure9", "--trace", trace, "--json", "-").document
    check_bars(document)
    assert (document["curve"], document["config"]["tokens_per_id"]) == ("Synthetic", 512)
    assert [one["ours"] for one in document["points"]] == [one["ours"] for one in document["bars"]]
    assert {one["group"] for one in document["bars"]} == {"Synthetic"}


def test_figure_9_of_the_conversation_says_why_it_is_off(run: Run, traces: Path) -> None:
    trace = traces / "mooncake-fast25" / "conversation_trace.jsonl.gz"
    done = run("reproduce", "fast25-figure9", "--trace", trace)
    assert done.code == 1
    assert "note: where nothing is evicted the rate is the trace's own: 38.19 % here, 40.06 % printed;" in done.out
    assert done.out.splitlines()[-1] == "FAIL: 10 of 11 hit rates are more than 1 point from the paper's"


def test_figure_9_needs_one_of_the_papers_traces(run: Run, trace: Path) -> None:
    done = run("reproduce", "fast25-figure9", "--trace", trace)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: the trace has 38 requests, nothing is known of its prompts; the figure's curves")


@pytest.mark.parametrize(
    ("name", "stopped", "closing"),
    [
        ("sosp23-figure15", Figure15, "stopped with 0 savings known"),
        ("fast25-figure9", Figure9, "stopped with 0 capacities known"),
    ],
)
def test_a_stopped_figure_says_what_is_known(
    run: Run, traces: Path, monkeypatch: pytest.MonkeyPatch, name: str, stopped: Any, closing: str
) -> None:
    files = {
        "sosp23-figure15": "sharegpt-opt-sosp23/fig2_requests_rate4_900s_seed0.csv",
        "fast25-figure9": "mooncake-fast25/synthetic_trace.jsonl",
    }
    whole = stopped.run

    def stop_first(figure: Any, **options: Any) -> Any:
        figure.stop()
        return whole(figure, **options)

    monkeypatch.setattr(stopped, "run", stop_first)
    done = run("reproduce", name, "--trace", traces / files[name])
    assert (done.code, done.out.splitlines()[-1]) == (130, f"INTERRUPTED: {closing}")


@pytest.mark.parametrize("missing", OUT_OF_REACH, ids=lambda missing: missing.name)
def test_what_cannot_be_reproduced_says_why(run: Run, trace: Path, missing: Any) -> None:
    for options in ((), ("--trace", trace)):
        done = run("reproduce", missing.name, *options)
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith(f"error: figure {missing.name} ({missing.paper}) cannot be reproduced: ")
        assert missing.printed in done.err
    # What it offers instead is a command that runs.
    words = missing.instead.replace("LENGTHS", str(trace)).split()[1:]
    assert run(*words).code == 0


def test_printed_values_of_what_cannot_be_reproduced() -> None:
    printed = {missing.name: missing.printed for missing in OUT_OF_REACH}
    assert printed["sosp23-figure15-alpaca"].startswith("6.09 %, 8.53 % and 9.79 %")
    assert "37.56 %, 53.13 % and 55.16 %" in printed["sosp23-figure15-beam"]


def test_the_list(run: Run) -> None:
    done = run("reproduce", "--list")
    assert (done.code, done.err) == (0, "")
    assert run("reproduce").out == done.out
    lines = done.out.splitlines()
    for figure in FIGURES:
        place = lines.index(figure.name)
        assert lines[place + 2] == f"  --trace: {figure.trace}"
    for missing in OUT_OF_REACH:
        place = lines.index(f"{missing.name} (cannot be reproduced)")
        assert lines[place + 3 : place + 5] == [f"  why not: {missing.reason}", f"  instead: {missing.instead}"]


@pytest.mark.parametrize("options", [("--quiet",), ("--json", "-"), ("--trace", "x"), ("sosp23-figure2", "--list")])
def test_the_list_takes_nothing_else(run: Run, options: tuple[str, ...]) -> None:
    done = run("reproduce", *options)
    assert (done.code, done.out) == (2, "")
    assert "give a FIGURE, or --list alone" in done.err


def test_every_figure_has_a_run_and_a_report() -> None:
    assert set(RUNS) == {figure.name for figure in FIGURES}
    with pytest.raises(ValueError, match="is not known"):
        reproduction_report({"figure": "sosp23-figure99"})


def test_bars_show_ours_and_what_is_printed() -> None:
    bars = [
        {"group": "a", "label": "x", "ours": 0.5, "printed": 0.25, "difference": 0.25},
        {"group": "a", "label": "y", "ours": 0.25, "printed": [0.5, 1.0], "difference": -0.25},
        {"group": "b", "label": "z", "ours": None, "printed": 1.0, "difference": None},
        {"group": "b", "label": "only ours", "ours": 0.0, "printed": None, "difference": None},
        {"group": "b", "label": "no share", "ours": 1e15, "printed": None, "difference": None},  # of a damaged file
    ]
    drawn = {line.label: line.value for line in bar_lines(bars, 1.0, "| printed")}
    assert drawn["a: x"] == "#" * 15 + "|" + "#" * 14
    assert drawn["a: y"] == "#" * 15 + "." * 15 + "|" + "." * 29 + "|"
    assert drawn["b: z"] == "." * 60 + "|"
    assert drawn["b: only ours"] == ""
    assert drawn["b: no share"] == "#" * 60
    (table,) = beside_table(bars, "what")
    assert table.rows == (
        ("a: x", "50.00 %", "25.0 %", "+25.00"),
        ("a: y", "25.00 %", "50.0 - 100.0 %", "-25.00"),
        ("b: z", "n/a", "100.0 %", "n/a"),
    )
    assert beside_table(bars[3:], "what") == ()
