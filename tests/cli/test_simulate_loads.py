"""`pagedkv simulate` with drawn loads, saved traces, forced formats and closed loops, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .conftest import Run
from .test_bad_input import assert_refused

DRAWN = ("--requests", 60, "--prompt-lengths", "uniform:5:90", "--output-lengths", "lognormal:20:0.5", "--blocks", 300)
TIMED = ("--rate", 20, "--step-ms", 50)


def figures(run: Run, *arguments: object) -> dict[str, Any]:
    done = run("simulate", *arguments, "--json", "-")
    assert done.code == 0, done.err
    found: dict[str, Any] = done.document["figures"]
    return found


@pytest.mark.parametrize(
    ("drawn", "replayed"),
    [
        ((), ()),
        (("--arrivals", "poisson", *TIMED), ("--step-ms", 50)),
        (("--arrivals", "gamma", "--burstiness", "3.5", *TIMED), ("--step-ms", 50)),
        (("--arrivals", "closed", "--concurrency", 4), ("--arrivals", "closed", "--concurrency", 4)),
        (("--arrivals", "closed"), ("--arrivals", "closed")),
        (
            ("--arrivals", "poisson", *TIMED, "--turns", 3, "--turn-gap-ms", 250, "--prefix-caching"),
            ("--step-ms", 50, "--prefix-caching"),
        ),
        (
            ("--system-prompt", 40, "--system-prompts", 3, "--prefix-caching", "--verify"),
            ("--prefix-caching", "--verify"),
        ),
        (
            ("--arrivals", "closed", "--turns", 4, "--system-prompt", 33, "--prefix-caching"),
            ("--arrivals", "closed", "--prefix-caching"),
        ),
    ],
)
@pytest.mark.parametrize("name", ["saved.jsonl", "saved.jsonl.gz"])
def test_a_saved_load_gives_the_same_run(
    run: Run, tmp_path: Path, drawn: tuple[object, ...], replayed: tuple[object, ...], name: str
) -> None:
    file = tmp_path / name
    first = figures(run, *DRAWN, *drawn, "--save-trace", file)
    again = figures(run, "--trace", file, "--strict", "--blocks", 300, *replayed)
    assert first == again
    assert first["completed"] == 60


def test_seeds_decide(run: Run) -> None:
    one, same, other = (figures(run, *DRAWN, "--seed", seed) for seed in (1, 1, 2))
    assert one == same
    assert one != other
    assert figures(run, *DRAWN) == figures(run, *DRAWN, "--seed", 42)


def test_lengths_of_a_trace(run: Run, trace: Path) -> None:
    done = run("simulate", "--lengths-from", trace, "--requests", 50, "--json", "-")
    assert done.document["figures"]["completed"] == 50
    assert done.document["config"]["synthetic"]["lengths_from"] == str(trace)
    assert_refused(run("simulate", "--lengths-from", trace, "--strict"), "row 39", "GeneratedTokens")
    assert_refused(
        run("simulate", "--lengths-from", trace, "--prompt-lengths", 5), "--prompt-lengths", "--lengths-from"
    )


def test_the_base_case_and_any_trace_can_be_saved(run: Run, trace: Path, tmp_path: Path) -> None:
    base = figures(run, "--save-trace", tmp_path / "base")
    options = ("--concurrency", 8, "--max-seq-len", 256)
    assert figures(run, "--trace", tmp_path / "base", *options) == base
    azure = figures(run, "--trace", trace, "--step-ms", 50, "--save-trace", tmp_path / "azure")
    ours = figures(run, "--trace", tmp_path / "azure", "--step-ms", 50)
    assert {**azure, "dropped_rows_in_whole_file": 0, "bad_rows_in_whole_file": 0} == ours


def test_what_is_drawn_is_said(run: Run) -> None:
    done = run("simulate", *DRAWN, "--arrivals", "poisson", *TIMED, "--turns", 2, "--system-prompt", 16)
    assert done.code == 0
    assert "60 requests  (uniform:5:90 in, lognormal:20:0.5 out, 2 turns a session, system prompt of 16" in done.out
    assert "poisson, 20 a second, 50 ms a step" in done.out
    assert "one for every one that ends" in run("simulate", *DRAWN, "--arrivals", "closed").out


def test_a_format_can_be_forced(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "lengths.csv"
    file.write_text("input_len,output_len,num_prefill_tokens,num_decode_tokens\n5,3,50,30\n")
    assert figures(run, "--trace", file)["completed_tokens"] == 30
    assert figures(run, "--trace", file, "--format", "input-output-csv")["completed_tokens"] == 3
    assert_refused(run("simulate", "--trace", file, "--format", "azure-csv"), "TIMESTAMP", "is missing")
    assert_refused(run("simulate", "--trace", file, "--format", "csv"), "format is 'csv'", "mooncake-jsonl")
    assert_refused(run("simulate", "--format", "azure-csv"), "--format", "--trace")
    assert_refused(run("simulate", "--trace", file, "--step-ms", 50), "--step-ms", "has none")


def test_sessions_over_the_cache_alone(run: Run, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.json").write_text(
            '{"block_size": 4, "hash_id_scope": "local", "requests": [{"t": 0, "in": 9, "out": 1, "hash_ids": [1, 2]},'
            ' {"t": 1, "in": 13, "out": 1, "hash_ids": [1, 2, 3]}]}'
        )
    found = figures(run, "--trace", tmp_path, "--prefix-caching", "--cache-only", "--blocks", 50)
    assert (found["requests"], found["full_block_hits"], found["full_blocks"]) == (4, 4, 10)
    assert found["token_hits"] == 16


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--arrivals", "uniform"), ("--arrivals", "poisson")),
        (("--arrivals", ""), ("--arrivals", "poisson")),
        (("--arrivals", "poisson", "--rate", 5), ("--step-ms",)),
        (("--arrivals", "poisson", "--step-ms", 5), ("--rate",)),
        (("--requests", 5, "--step-ms", 5), ("--step-ms", "offline")),
        (("--arrivals", "closed", "--rate", 5), ("--rate", "poisson")),
        (("--arrivals", "poisson", *TIMED, "--burstiness", 2), ("--burstiness", "gamma")),
        (("--arrivals", "poisson", *TIMED, "--turn-gap-ms", 2), ("--turn-gap-ms", "--turns")),
        (("--requests", 5, "--turns", 2, "--turn-gap-ms", 2), ("--turn-gap-ms", "timed")),
        (("--requests", 5, "--system-prompts", 2), ("--system-prompts", "--system-prompt")),
        (("--requests", 5, "--closed-loop"), ("--closed-loop", "--arrivals closed")),
        (("--requests", 5, "--limit", 3), ("--limit", "--trace")),
        (("--requests", 5, "--strict"), ("--strict", "--trace")),
        (("--closed-loop", "--save-trace", "x"), ("--closed-loop", "--save-trace")),
        (("--lengths-from", "missing.csv"), ("missing.csv",)),
        (("--requests", 5, "--turns", 10_001), ("turns",)),
    ],
)
def test_what_does_not_go_together(run: Run, options: tuple[object, ...], words: tuple[str, ...]) -> None:
    assert_refused(run("simulate", *options), *words)


def test_what_does_not_go_with_a_trace(run: Run, trace: Path) -> None:
    for option in (
        ("--requests", 5),
        ("--arrivals", "poisson"),
        ("--rate", 5),
        ("--turns", 2),
        ("--lengths-from", trace),
    ):
        assert_refused(run("simulate", "--trace", trace, *option), str(option[0]), "--trace")
    assert_refused(run("simulate", "--trace", trace, "--arrivals", "closed", "--step-ms", 50), "--step-ms", "closed")
    cache = ("--trace", trace, "--prefix-caching", "--cache-only")
    assert_refused(run("simulate", *cache, "--arrivals", "closed"), "--arrivals", "--cache-only")
    assert_refused(run("simulate", *cache, "--save-trace", "x"), "--save-trace", "--cache-only")


@pytest.mark.parametrize("option", ["--requests", "--turns", "--system-prompts"])
@pytest.mark.parametrize("value", ["0", "-1", "2.5", "nan", "", "x", "9" * 30])
def test_numbers_that_make_no_load(run: Run, option: str, value: str) -> None:
    assert_refused(run("simulate", "--system-prompt", 5, option, value))


@pytest.mark.parametrize("value", ["-1", "2.5", "nan", "", "x", "9" * 30])
def test_system_prompts_that_make_no_sense(run: Run, value: str) -> None:
    assert_refused(run("simulate", "--system-prompt", value))


@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "", "x", "1e3", "9" * 30])
@pytest.mark.parametrize("option", ["--rate", "--burstiness"])
def test_rates(run: Run, option: str, value: str) -> None:
    other = ("--rate", 5) if option == "--burstiness" else ()
    assert_refused(run("simulate", "--arrivals", "gamma", "--step-ms", 50, *other, option, value), option)


@pytest.mark.parametrize("value", ["-1", "nan", "", "x", "1e3", "9" * 30])
def test_gaps(run: Run, value: str) -> None:
    timed = ("--arrivals", "poisson", *TIMED, "--turns", 2)
    assert_refused(run("simulate", *timed, "--turn-gap-ms", value), "--turn-gap-ms")


@pytest.mark.parametrize("option", ["--prompt-lengths", "--output-lengths"])
@pytest.mark.parametrize(
    "value",
    [
        *("", "0", "-5", "2.5", "x", "2147483648", "9" * 13, "uniform", "uniform:5", "uniform:9:5", "uniform:0:5"),
        *("uniform:1:2:3", "uniform:1:2.5", "uniform::", "lognormal:5", "lognormal:0:1", "lognormal:5:101"),
        *("lognormal:nan:1", "lognormal:5:-1", "lognormal:1e3:1", "zipf:1:2", "trace", "Uniform:1:2"),
    ],
)
def test_lengths(run: Run, option: str, value: str) -> None:
    assert_refused(run("simulate", option, value), option)


def test_conversations_that_grow_too_long(run: Run) -> None:
    options = ("--requests", 3000, "--turns", 3000, "--prompt-lengths", "1000000")
    assert_refused(run("simulate", *options), "3000 turns", "fewer turns")


def test_nothing_is_written_over_what_is_read(run: Run, trace: Path, tmp_path: Path) -> None:
    before = trace.read_bytes()
    for options in (
        ("--trace", trace, "--save-trace", trace),
        ("--trace", trace, "--json", trace),
        ("--lengths-from", trace, "--save-trace", tmp_path / ".." / tmp_path.name / trace.name),
        ("--requests", 5, "--save-trace", tmp_path / "new", "--json", tmp_path / "new"),
    ):
        assert_refused(run("simulate", *options), "give another file")
    assert trace.read_bytes() == before
    assert not (tmp_path / "new").exists()


def test_a_trace_that_cannot_be_saved(run: Run, tmp_path: Path) -> None:
    assert_refused(run("simulate", "--requests", 5, "--save-trace", tmp_path / "missing" / "x"), "cannot be written")
    assert_refused(run("simulate", "--requests", 5, "--save-trace", ""), "cannot be written")
    assert list(tmp_path.iterdir()) == []
