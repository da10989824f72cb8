"""`pagedkv simulate --compare`: contiguous systems beside the paged one, in one table and in the document."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from pagedkv.simulate.reservation.scheduler import ReservationScheduler

from .conftest import Run

TITLE = "Paged beside contiguous systems, shares of the pool, mean over "
NAMES = ["paged", *(f"{r}, {p}" for r in ("max", "pow2", "oracle") for p in ("counting", "first fit", "buddy"))]


def table(out: str) -> list[list[str]]:
    """The rows below the title, cells apart by two spaces or more."""
    lines = out.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith(TITLE))
    rows = lines[at + 2 : lines.index("", at)]
    return [[cell.strip() for cell in row.split("  ") if cell.strip()] for row in rows]


def test_ten_systems_in_one_table(run: Run, trace: Path) -> None:
    done = run("simulate", "--trace", trace, "--blocks", 40, "--compare")
    assert done.code == 0
    assert f"{TITLE}steps with a queue" in done.out.splitlines()
    rows = table(done.out)
    assert [row[0] for row in rows] == NAMES
    for row in rows:
        shares = [float(cell.removesuffix(" %")) for cell in row[4:]]
        assert len(shares) == 4
        assert sum(shares) == pytest.approx(100, abs=0.03)


def test_the_document_has_what_the_table_shows(run: Run, trace: Path) -> None:
    options = ("simulate", "--trace", trace, "--blocks", 40, "--compare")
    document = run(*options, "--json", "-").document
    systems = document["systems"]
    assert document["config"]["compare"] is True
    assert (systems[0]["reservation"], systems[0]["placement"]) == (None, None)
    assert len({(one["reservation"], one["placement"]) for one in systems}) == len(systems) == 10
    assert not any(one["interrupted"] for one in systems)
    for one, row in zip(systems, table(run(*options).out), strict=True):
        figures = one["figures"]
        assert row[1:3] == [str(figures["rejected"]), str(figures["steps"])]
        assert row[4] == f"{100 * figures['saturated']['token_states']:.2f} %"
        assert figures["completed"] == figures["requests"] == 38
        assert figures["pool_tokens"] == 640
    for name in ("steps", "saturated_steps", "preemptions", "peak_running", "sum_running_over_steps"):
        assert systems[0]["figures"][name] == document["figures"][name]


def test_without_it_there_is_no_table_and_no_system(run: Run) -> None:
    assert TITLE not in run("simulate").out
    document = run("simulate", "--json", "-").document
    assert document["systems"] is None
    assert document["config"]["compare"] is False


def test_a_run_without_a_queue_is_averaged_over_all_steps(run: Run) -> None:
    out = run("simulate", "--completions", 3, "--compare").out
    assert f"{TITLE}all steps" in out.splitlines()
    assert [row[0] for row in table(out)] == NAMES
    assert "-0.00" not in out


def test_a_system_that_rejects_everything_says_so(run: Run, trace: Path) -> None:
    out = run("simulate", "--trace", trace, "--blocks", 40, "--max-seq-len", 1000, "--compare").out
    rows = {row[0]: row[1:] for row in table(out)}
    assert rows["max, counting"] == ["38", "0", "n/a", "n/a", "n/a", "n/a", "n/a"]
    assert rows["oracle, counting"][0] == "0"
    assert f"{TITLE}steps with a queue" in out.splitlines()


@pytest.mark.parametrize(
    "others", [("--samples", 2), ("--beam-width", 2), ("--prefix-caching",), ("--prefix-caching", "--cache-only")]
)
def test_what_shares_is_not_compared(run: Run, trace: Path, others: tuple[object, ...]) -> None:
    done = run("simulate", "--trace", trace, "--compare", *others)
    assert (done.code, done.out) == (2, "")
    assert "--compare" in done.err


def test_ctrl_c_ends_the_comparison_with_what_there_is(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    measure: Any = ReservationScheduler._measure

    def interrupted(scheduler: ReservationScheduler) -> None:
        measure(scheduler)
        if scheduler.step == 5:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(ReservationScheduler, "_measure", interrupted)
    done = run("simulate", "--compare")
    assert done.code == 130
    rows = table(done.out)
    assert [row[0] for row in rows] == ["paged", "max, counting (stopped)"]
    assert rows[1][2] == "6"
    assert done.out.splitlines()[-1].startswith("INTERRUPTED: 100 of 100 requests completed")
