"""`pagedkv reproduce`: the table of a figure, its document, and what is refused."""

from __future__ import annotations

import signal
from json import loads
from pathlib import Path
from typing import Any

import pytest

from pagedkv.report.reproductions.beside import BAR
from pagedkv.report.reproductions.sosp23_figure2 import bar
from pagedkv.simulate.reservation.scheduler import ReservationScheduler

from .conftest import Run

FIGURE = "sosp23-figure2"


@pytest.fixture
def requests(traces: Path) -> Path:
    """The paper's requests."""
    return traces / "sharegpt-opt-sosp23" / "fig2_requests_rate4_900s_seed0.csv"


def test_the_figure(run: Run, requests: Path, tmp_path: Path) -> None:
    json = tmp_path / "figure.json"
    done = run("reproduce", FIGURE, "--trace", requests, "--json", json)
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert "systems  paged, and reservations of up to 2,048 tokens placed by buddy" in lines
    assert "  oracle, buddy: token states    37.67 %   38.2 %   -0.53" in lines
    assert "  oracle, buddy: internal         0.00 %    0.0 %   +0.00" in lines
    assert lines[-1] == "PASS: all 13 shares are within 1.5 points of the paper's; the largest is 1.37"
    bars = [line.split()[-1] for line in lines if line.strip().startswith(("paged:   ", "max, buddy:  "))]
    assert [len(one) for one in bars] == [BAR, BAR]
    assert "note:" not in done.out
    shown = run("reproduce", FIGURE, "--trace", requests, "--json", "-")
    document = shown.document
    written = loads(json.read_text(encoding="utf-8"))
    assert written | {"command_line": document["command_line"]} == document
    assert (document["command"], document["figure"], document["outcome"]) == ("reproduce", FIGURE, "PASS")
    assert document["config"]["placement"] == "buddy"
    assert [one["reservation"] for one in document["systems"]] == [None, "max", "pow2", "oracle"]
    for one in document["shares"]:
        assert one["difference"] == one["ours"] - one["printed"]
    bars = document["bars"]
    assert [one["group"] for one in bars[::4]] == ["paged", "max, buddy", "pow2, buddy", "oracle, buddy"]
    for group in range(4):  # the shares of a system are all there, printed or not
        assert sum(one["ours"] for one in bars[4 * group : 4 * group + 4]) == pytest.approx(1)
    assert [one["printed"] for one in bars[:5]] == [0.963, None, None, None, 0.204]
    printed = [(one["ours"], one["printed"], one["difference"]) for one in bars if one["printed"] is not None]
    assert printed == [(one["ours"], one["printed"], one["difference"]) for one in document["shares"]]


def test_another_load_fails_and_says_so(run: Run, trace: Path) -> None:
    done = run("reproduce", FIGURE, "--trace", trace)
    assert done.code == 1
    assert "note: the paper's sequence has 3,604 requests, this trace 38: it is another load" in done.out.splitlines()
    assert done.out.splitlines()[-1] == (
        "FAIL: 3 of 4 systems have no step with a queue; 3 of 4 shares are more than 1.5% of the pool from the paper's"
    )


def test_what_cannot_be_reproduced_is_refused(run: Run, trace: Path) -> None:
    done = run("reproduce", "sosp23-figure99", "--trace", trace)
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "error: figure 'sosp23-figure99' is not known; give one of sosp23-figure2, sosp23-figure15, fast25-figure9 "
        "(not reproducible: sosp23-figure15-alpaca, sosp23-figure15-beam)\n"
    )
    assert run("reproduce", FIGURE, "--trace", trace.parent / "missing.csv").code == 2
    assert run("reproduce", FIGURE, "--trace", trace, "--json", trace).code == 2
    done = run("reproduce", FIGURE)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: sosp23-figure2 needs its requests, the 3,604 requests that")


def test_ctrl_c_ends_the_figure(run: Run, trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measure: Any = ReservationScheduler._measure

    def interrupted(scheduler: ReservationScheduler) -> None:
        measure(scheduler)
        if scheduler.step == 2:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(ReservationScheduler, "_measure", interrupted)
    done = run("reproduce", FIGURE, "--trace", trace, "--quiet")
    assert (done.code, done.out) == (130, "INTERRUPTED: stopped with 2 systems begun\n")


def test_bars_are_as_long_as_the_pool() -> None:
    shares = {"token_states": 0.25, "reservation": 0.125, "internal": 0.125, "external_and_free": 0.5}
    drawn = bar(shares)
    assert len(drawn) == BAR
    assert [drawn.count(mark) for mark in "#."] == [15, 30]
    assert drawn == "".join(sorted(drawn, key="#=-.".index))
    assert bar(None) == ""
