"""`pagedkv simulate`: the base case, traces, the document and the dashboard."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .conftest import Run

# By a brute-force count of the base case's definition: prompt randint(4, 32), total randint(32, 256), seed 42.
BASE_CASE = {
    ("8", ()): {"steps": 1778, "peak_blocks": 81, "total_block_allocs": 1003, "peak_tokens": 1243},
    ("100", ()): {"steps": 248, "peak_blocks": 549, "total_block_allocs": 1003, "peak_tokens": 8332},
    ("8", ("--closed-loop",)): {"steps": 1774, "peak_blocks": 81, "total_block_allocs": 1043, "peak_tokens": 1243},
    ("100", ("--closed-loop",)): {"steps": 191, "peak_blocks": 803, "total_block_allocs": 1488, "peak_tokens": 12177},
}


@pytest.mark.parametrize(("concurrency", "form"), BASE_CASE)
def test_base_case(run: Run, concurrency: str, form: tuple[str, ...]) -> None:
    done = run("simulate", "--concurrency", concurrency, *form, "--json", "-")
    assert done.code == 0
    figures = done.document["figures"]
    right = BASE_CASE[concurrency, form]
    assert {name: figures[name] for name in right} == right
    assert figures["completions"] == 100


def test_the_document(run: Run) -> None:
    document = run("simulate", "--json", "-").document
    assert (document["schema"], document["command"], document["outcome"]) == (1, "simulate", "PASS")
    assert set(document["versions"]) == {"pagedkv", "python", "numpy", "platform"}
    assert document["config"]["pool_bytes"] == 256 * 2**20
    assert document["config"]["max_seq_len"] == 256
    assert document["verification"] == {
        "sequences": 100,
        "tokens": 15_321,
        "wrong_tokens": 0,
        "wrong_sequences": [],
    }
    figures = document["figures"]
    assert figures["peak_saving_vs_contiguous"] == pytest.approx(0.3671875, rel=1e-12)
    assert figures["contiguous_max_bytes"] == 1_048_576


def test_the_dashboard_of_the_base_case(run: Run) -> None:
    done = run("simulate")
    assert done.code == 0
    lines = [line.strip() for line in done.out.splitlines()]
    for start, value in (
        ("peak utilization:", "0.25 %"),
        ("mean utilization:", "0.16 %"),
        ("final utilization:", "0.00 %"),
        ("internal, mean:", "7.33 %"),
        ("internal, pooled:", "6.98 %"),
        ("external:", "0.00 %  (none: any free block will do)"),
        ("paged:", "0.63 MiB"),
        ("contiguous:", "1.00 MiB"),
        ("saved:", "36.72 %  (1.58 x less)"),
        ("block hand-outs:", "1,003"),
        ("token allocations:", "15,321"),
    ):
        assert any(line.startswith(start) and value in line for line in lines), start
    assert lines[-1].startswith("PASS: 100 of 100 requests completed")
    assert "\x1b" not in done.out


def test_quiet_prints_one_line(run: Run) -> None:
    done = run("simulate", "--quiet")
    assert done.out.count("\n") == 1
    assert done.out.startswith("PASS: ")


def test_a_trace_offline_and_timed(run: Run, trace: Path) -> None:
    offline = run("simulate", "--trace", trace, "--blocks", 64, "--json", "-").document
    timed = run("simulate", "--trace", trace, "--blocks", 64, "--step-ms", "12.5", "--json", "-").document
    for document in (offline, timed):
        figures = document["figures"]
        assert (figures["requests"], figures["completed"]) == (38, 38)
        assert (figures["dropped_rows_in_whole_file"], figures["bad_rows_in_whole_file"]) == (1, 1)
        assert document["verification"] is None
        assert document["device"]["name"] == "null"
    assert offline["figures"]["saturated_steps"] > 0
    assert timed["figures"]["peak_running"] < offline["figures"]["peak_running"]
    assert timed["config"]["step_ticks"] == 125_000


def test_a_trace_with_verification(run: Run, trace: Path) -> None:
    document = run("simulate", "--trace", trace, "--blocks", 40, "--verify", "--json", "-").document
    assert document["device"]["name"] == "host"
    assert document["figures"]["preemptions"] > 0
    assert document["verification"]["sequences"] == 38
    assert document["verification"]["wrong_tokens"] == 0


def test_dropped_and_bad_rows_are_shown(run: Run, trace: Path) -> None:
    done = run("simulate", "--trace", trace)
    assert "skipped row 39, column GeneratedTokens: is 0: nothing to replay" in done.out
    assert "skipped row 40, column TIMESTAMP: is 'junk'" in done.out


def test_limit_takes_the_first_requests(run: Run, trace: Path) -> None:
    document = run("simulate", "--trace", trace, "--limit", 5, "--json", "-").document
    assert document["figures"]["requests"] == 5
    assert document["config"]["max_seq_len"] == 48 + 9


def test_caps(run: Run, trace: Path) -> None:
    capped = run("simulate", "--trace", trace, "--max-seqs", 3, "--json", "-").document["figures"]
    assert capped["peak_running"] == 3
    held = run("simulate", "--trace", trace, "--concurrency", 5, "--json", "-").document["figures"]
    assert (held["peak_running"], held["contiguous_sequences"]) == (5, 5)


def test_a_rejected_request_is_counted_and_named_and_the_run_goes_on(run: Run, trace: Path) -> None:
    done = run("simulate", "--trace", trace, "--blocks", 15)  # the last requests need more than 240 tokens
    assert done.code == 0
    assert "blocks, the pool has 15" in done.out
    document = run("simulate", "--trace", trace, "--blocks", 15, "--json", "-").document
    figures = document["figures"]
    assert figures["rejected"] > 0
    assert figures["completed"] + figures["rejected"] == 38


def test_nothing_completed_is_a_failure(run: Run) -> None:
    done = run("simulate", "--blocks", 1)
    assert done.code == 1
    assert "FAIL: no request completed (0 of 100 requests completed)" in done.out
    done = run("simulate", "--blocks", 1, "--json", "-")
    assert (done.code, done.document["outcome"]) == (1, "FAIL")
    assert done.err.startswith("FAIL: no request completed")


def test_m1_a_percentage_floors(run: Run) -> None:
    def blocks(watermark: str) -> int:
        options = ("simulate", "--blocks", 10, "--completions", 3, "--block-size", 64, "--watermark", watermark)
        found: int = run(*options, "--json", "-").document["config"]["watermark"]
        return found

    assert [blocks(share) for share in ("1%", "10%", "19.9 %", "2", "0")] == [0, 1, 1, 2, 0]


def test_json_to_a_file_beside_the_dashboard(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    file.write_text("what was there before, and longer than nothing")
    done = run("simulate", "--json", file)
    assert done.out.splitlines()[-1].startswith("PASS")
    document: dict[str, Any] = json.loads(file.read_text())
    assert document["figures"]["peak_blocks"] == 81


def test_a_seed_is_repeatable_and_matters(run: Run) -> None:
    def figures(seed: int) -> dict[str, Any]:
        found: dict[str, Any] = run("simulate", "--seed", seed, "--no-verify", "--json", "-").document["figures"]
        return found

    assert figures(7) == figures(7)
    assert figures(7) != figures(8)


def test_the_device_is_chosen_and_said(run: Run) -> None:
    assert "device   host" in run("simulate").out
    assert "device   null" in run("simulate", "--no-verify").out
    large = run("simulate", "--pool-size", "80GiB", "--token-bytes", 131072)
    assert large.code == 0
    assert "no bytes are verified" in large.out or "device   host" in large.out  # a machine with 160 GiB free
