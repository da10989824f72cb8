"""Two results side by side: what differs, by how much."""

from __future__ import annotations

import pytest

from pagedkv.errors import InvalidArgumentError
from pagedkv.report.comparison import compare_documents
from pagedkv.report.comparison_report import comparison_report
from pagedkv.report.html.charts_compare import compare_charts
from pagedkv.report.leaves import leaves

from .documents import reproduction, series, simulation

FILES = ("a.json", "some/b.json")


def test_figures_have_difference_and_ratio() -> None:
    a, b = simulation(), simulation()
    a["figures"] |= {"steps": 4, "preemptions": 0, "saturated": {"steps": 2}, "token_hit_rate": None}
    b["figures"] |= {"steps": 6, "preemptions": 5, "saturated": None}
    figures = {one["key"]: one for one in compare_documents((a, b), FILES)["figures"]}
    assert figures["steps"] == {"key": "steps", "a": 4, "b": 6, "difference": 2, "ratio": 1.5}
    assert (figures["preemptions"]["difference"], figures["preemptions"]["ratio"]) == (5, None)
    assert (figures["saturated.steps"]["b"], figures["saturated.steps"]["difference"]) == (None, None)
    assert (figures["token_hit_rate"]["a"], figures["token_hit_rate"]["b"]) == (None, 0.25)


def test_a_ratio_beyond_all_numbers_is_none() -> None:
    a, b = simulation(), simulation()
    a["figures"]["mean_running"], b["figures"]["mean_running"] = 5e-324, 8.0
    figures = {one["key"]: one for one in compare_documents((a, b), FILES)["figures"]}
    assert figures["mean_running"] == {"key": "mean_running", "a": 5e-324, "b": 8.0, "difference": 8.0, "ratio": None}


def test_what_differs_in_configuration_comes_with_its_name() -> None:
    a, b = simulation(), simulation()
    b["config"] |= {"blocks": 50, "synthetic": {"rate": 2}}
    b["trace"] = None
    b["versions"] |= {"python": "3.13.0"}
    assert compare_documents((a, b), FILES)["config"] == [
        {"key": "blocks", "a": 100, "b": 50},
        {"key": "trace.file", "a": "a file.csv", "b": None},
        {"key": "versions.python", "a": "3.12.0", "b": "3.13.0"},
        {"key": "synthetic.rate", "a": None, "b": 2},
    ]


def test_the_document_says_what_was_compared() -> None:
    document = compare_documents((simulation(), simulation(outcome="INTERRUPTED")), FILES)
    assert (document["schema"], document["command"], document["of"]) == (1, "compare", "simulate")
    assert document["b"] == {
        "file": "some/b.json", "name": "b.json", "outcome": "INTERRUPTED",
        "command_line": "pagedkv simulate --trace 'a file.csv'", "pagedkv": "0.1.0",
    }  # fmt: skip
    assert document["notes"] == ["B ended with INTERRUPTED: its figures may be of a part of the load"]


def test_systems_of_a_reproduction_are_compared_by_name() -> None:
    a, b = reproduction(), reproduction()
    b["systems"][1]["figures"]["steps"] = 18
    b["bars"][1]["ours"] = 0.04
    figures = {one["key"]: one for one in compare_documents((a, b), FILES)["figures"]}
    assert figures["systems.max, first fit.steps"]["ratio"] == 2.0
    assert figures["paged: internal"]["ratio"] == 2.0


def test_results_of_two_commands_are_refused() -> None:
    with pytest.raises(
        InvalidArgumentError, match=r"a.json is of `pagedkv simulate`, some/b.json of `pagedkv reproduce`"
    ):
        compare_documents((simulation(), reproduction()), FILES)


def test_the_report_shows_what_differs_and_counts_the_rest() -> None:
    a, b = simulation(), simulation()
    b["config"] |= {"blocks": 50}
    b["figures"] |= {"steps": 6, "mean_blocks": 0.5}
    report = comparison_report(compare_documents((a, b), FILES))
    settings, figures = report.tables
    assert settings.rows == (("blocks", "100", "50"),)
    assert figures.rows == (("steps", "3", "6", "+3", "2"), ("mean_blocks", "0.25", "0.5", "+0.25", "2"))
    same = len(leaves(a["figures"])) - 2
    assert report.notes == (f"{same} figures are the same in both",)
    assert report.closing == f"1 settings and 2 of {same + 2} figures differ"


def test_overlays_are_shares_of_each_run_s_own_pool() -> None:
    a, b = simulation(), simulation()
    b["config"] |= {"blocks": 50}
    used = compare_charts((a, b), FILES)[0]
    assert used.traces[2]["y"] == [0.5, 1.5, 2.5, 3.5, 3.5]
    assert used.traces[5]["y"] == [1.0, 3.0, 5.0, 7.0, 7.0]
    assert [key.label for key in used.keys] == ["A: a.json", "B: some/b.json"]
    assert used.caption.count("A point stands for") == 1
    b["history"]["series"] = series(4, per_bucket=1)
    assert compare_charts((a, b), FILES)[0].caption == (
        "A: A point stands for 2 steps: the line is their mean, the band reaches from the least to the most of them. "
        "B: Every step is drawn."
    )


def test_a_run_without_a_record_has_no_overlays() -> None:
    assert compare_charts((simulation(), simulation(history=None)), FILES) == ()
