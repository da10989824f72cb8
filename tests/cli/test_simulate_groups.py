"""`pagedkv simulate` with samples and beams: figures, dashboard, and what a run says of itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .conftest import Run

SECTION = "Sharing within requests"


def test_samples_of_the_base_case(run: Run) -> None:
    document = run("simulate", "--samples", 4, "--json", "-").document
    figures, one = document["figures"], run("simulate", "--json", "-").document["figures"]
    assert (document["outcome"], document["config"]["samples"], document["config"]["beam_width"]) == ("PASS", 4, 1)
    assert document["verification"]["sequences"] == 400
    assert document["verification"]["tokens"] == 4 * 15_321
    # The same 1,778 steps; without sharing, four times the blocks of one sequence a request.
    assert figures["steps"] == one["steps"]
    assert figures["sum_logical_blocks_over_steps"] == 4 * one["sum_allocated_blocks_over_steps"]
    assert figures["contiguous_sequences"] == 4 * one["contiguous_sequences"]
    assert figures["peak_running"] == one["peak_running"] == 8
    assert 0 < figures["pooled_sharing_saving"] < 1
    assert figures["cow_copies"] > 0


def test_a_single_sequence_shares_nothing_and_its_dashboard_says_nothing_of_it(run: Run) -> None:
    figures = run("simulate", "--json", "-").document["figures"]
    assert figures["sum_logical_blocks_over_steps"] == figures["sum_allocated_blocks_over_steps"]
    assert figures["peak_logical_blocks"] == figures["peak_blocks"]
    assert (figures["pooled_sharing_saving"], figures["peak_saved_blocks"], figures["cow_copies"]) == (0.0, 0, 0)
    assert (figures["saturated_sharing_ratio"], figures["saturated_sharing_saving"]) == (1.0, 0.0)
    shown = run("simulate").out
    assert SECTION not in shown
    assert "request:" not in shown


@pytest.mark.parametrize(
    ("options", "request_line"),
    [
        (("--samples", "3"), "3 samples  (one prompt, stored once)"),
        (("--beam-width", "3"), "3 beams  (one survives a step with 0.9, seed 42)"),
        (
            ("--beam-width", "2", "--beam-survival", "0.25", "--seed", "7"),
            "2 beams  (one survives a step with 0.25, seed 7)",
        ),
    ],
)
def test_the_dashboard_of_groups(run: Run, options: tuple[str, ...], request_line: str) -> None:
    done = run("simulate", "--completions", 20, *options)
    assert done.code == 0
    lines = [line.strip() for line in done.out.splitlines()]
    assert f"request:                 {request_line}" in lines
    section = lines[lines.index(SECTION) + 1 :]
    labels = [line.partition(":")[0] for line in section[: section.index("")]]
    assert labels == ["without sharing", "with sharing", "saved", "saved with a queue", "blocks copied"]


def test_a_run_without_a_queue_has_no_mean_over_steps_with_one(run: Run) -> None:
    options = ("simulate", "--samples", 2, "--completions", 3)
    assert "n/a  (no step had one)" in run(*options).out
    figures = run(*options, "--json", "-").document["figures"]
    assert (figures["saturated_sharing_ratio"], figures["saturated_sharing_saving"]) == (None, None)


def test_beams_of_a_trace_are_drawn_with_the_seed(run: Run, trace: Path) -> None:
    def document(*options: object) -> dict[str, Any]:
        found: dict[str, Any] = run(
            "simulate", "--trace", trace, "--blocks", 96, "--beam-width", 3, "--verify", "--json", "-", *options
        ).document
        return found

    usual, again, other = document(), document("--seed", 42), document("--seed", 43)
    assert usual["figures"] == again["figures"]
    assert usual["figures"] != other["figures"]
    assert usual["config"]["seed"] == 42
    assert not [note for note in other["notes"] if "--seed" in note]
    assert usual["outcome"] == other["outcome"] == "PASS"
    assert usual["figures"]["preemptions"] > 0
    assert usual["verification"]["sequences"] == 3 * 38


def test_admission_by_final_footprint_preempts_nothing(run: Run, trace: Path) -> None:
    def figures(*options: object) -> dict[str, Any]:
        found: dict[str, Any] = run("simulate", "--trace", trace, "--blocks", 40, *options, "--json", "-").document
        return dict(found["figures"])

    for group in ((), ("--samples", 2), ("--beam-width", 2)):
        assert figures(*group)["preemptions"] > 0
        final = figures(*group, "--admission", "final")
        assert (final["preemptions"], final["completed"]) == (0, 38)
    shown = run("simulate", "--trace", trace, "--blocks", 40, "--admission", "final").out
    assert "admission:               by final footprint  (nothing is preempted)" in shown


def test_a_rejected_group_is_named_by_its_request(run: Run, trace: Path) -> None:
    done = run("simulate", "--trace", trace, "--blocks", 20, "--samples", 4, "--json", "-").document
    assert done["figures"]["rejected"] == len(done["rejections"]) > 0
    assert all(0 <= rejection["request"] < 38 and rejection["needed"] > 20 for rejection in done["rejections"])


def test_a_closed_loop_of_beams(run: Run) -> None:
    document = run("simulate", "--closed-loop", "--beam-width", 4, "--json", "-").document
    assert document["outcome"] == "PASS"
    assert document["figures"]["completed"] == 100
    assert document["verification"]["wrong_tokens"] == 0
