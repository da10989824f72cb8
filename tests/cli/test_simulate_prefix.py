"""`pagedkv simulate --prefix-caching`, with steps and with the cache alone."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from .conftest import Run
from .test_bad_input import assert_refused

SECTION = "Prefix reuse"


def _row(time: int, prompt: int, output: int, ids: list[int]) -> str:
    return json.dumps({"timestamp": time, "input_length": prompt, "output_length": output, "hash_ids": ids})


@pytest.fixture
def mooncake(tmp_path: Path) -> Path:
    """Six turns of two conversations, a second apart, then a row without output and one with an id too many."""
    rows = [_row(1000 * i, 512 * (2 + i) - 100, 10, ids) for i, ids in enumerate(_turns())]
    file = tmp_path / "mooncake.jsonl"
    file.write_text("\n".join([*rows, _row(9000, 5, 0, [1]), _row(9000, 20, 1, [0, 1])]))
    return file


def _turns() -> list[list[int]]:
    return [[0, *range(10 * (turn % 2 + 1), 10 * (turn % 2 + 1) + 1 + turn)] for turn in range(6)]


def test_a_run_with_prefix_caching(run: Run, mooncake: Path) -> None:
    options = ("simulate", "--trace", mooncake, "--step-ms", 50, "--blocks", 1000)
    document = run(*options, "--prefix-caching", "--json", "-").document
    figures, plain = document["figures"], run(*options, "--json", "-").document["figures"]
    assert (document["config"]["prefix_caching"], document["config"]["cache_only"]) == (True, False)
    # Turn t > 1 finds the t ids of turn t - 2, but for the end of its prompt, which fills no block of 16 (112 tokens).
    prompts = [512 * (2 + turn) - 100 for turn in range(6)]
    assert figures["queried_tokens"] == sum(prompts)
    assert figures["hit_tokens"] == 512 + sum(512 * turn - 112 for turn in (2, 3, 4, 5))
    assert figures["computed_tokens"] == sum(prompts) - figures["hit_tokens"]
    assert figures["token_hit_rate"] == figures["hit_tokens"] / figures["queried_tokens"]
    assert figures["total_token_allocs"] == plain["total_token_allocs"] - figures["hit_tokens"]
    assert figures["evictions"] == 0 < figures["cached_blocks"]
    assert plain["queried_tokens"] == plain["hit_tokens"] == plain["cached_blocks"] == 0
    assert plain["token_hit_rate"] is None


def test_the_section_is_there_with_prefix_caching_only(run: Run, mooncake: Path) -> None:
    shown = [line.strip() for line in run("simulate", "--trace", mooncake, "--prefix-caching").out.splitlines()]
    assert "prefix caching:          on" in shown
    section = shown[shown.index(SECTION) + 1 :]
    labels = [line.partition(":")[0] for line in section[: section.index("")]]
    assert labels == [
        "hit rate, tokens",
        "hit rate, full blocks",
        "prefill tokens saved",
        "blocks shared, peak",
        "blocks revived",
        "evictions",
        "cached at the end",
    ]
    assert SECTION not in run("simulate", "--trace", mooncake).out


def test_bytes_are_verified_where_prompts_are_shared(run: Run, mooncake: Path) -> None:
    options = ("simulate", "--trace", mooncake, "--prefix-caching", "--verify", "--blocks", 300, "--json", "-")
    document = run(*options).document
    assert document["outcome"] == "PASS"
    assert document["verification"]["sequences"] == 6
    assert document["verification"]["wrong_tokens"] == 0
    assert document["figures"]["hit_tokens"] > 0


def test_the_base_case_finds_what_was_preempted(run: Run, trace: Path) -> None:
    document = run("simulate", "--prefix-caching", "--blocks", 60, "--json", "-").document
    assert document["figures"]["preemptions"] > 0
    assert document["figures"]["hit_tokens"] > 0
    assert document["verification"]["wrong_tokens"] == 0
    closed = run("simulate", "--prefix-caching", "--blocks", 60, "--closed-loop", "--json", "-").document
    assert (closed["outcome"], closed["figures"]["completed"]) == ("PASS", 100)
    assert "does not say what its prompts hold" in run("simulate", "--trace", trace, "--prefix-caching").out


def test_the_cache_alone(run: Run, mooncake: Path) -> None:
    options = ("simulate", "--trace", mooncake, "--prefix-caching", "--cache-only", "--blocks")
    document = run(*options, 1000, "--json", "-").document
    figures, config = document["figures"], document["config"]
    assert (document["outcome"], config["cache_only"], config["block_size"]) == ("PASS", True, 512)
    assert (figures["requests"], figures["completed"]) == (6, 6)
    assert (figures["dropped_rows_in_whole_file"], figures["bad_rows_in_whole_file"]) == (1, 1)
    # Each turn has the ids of the one before the last, and one more; the first two share id 0 only.
    assert (figures["blocks"], figures["block_hits"]) == (27, 0 + 1 + 2 + 3 + 4 + 5)
    assert figures["unique_blocks"] == figures["cached_blocks"] == 12
    assert figures["evictions"] == 0
    small = run(*options, 3, "--json", "-").document["figures"]
    assert small["larger_than_pool"] == 4
    assert small["cached_blocks"] == 3
    limited = run(*options, 1000, "--limit", 2, "--json", "-").document["figures"]
    assert (limited["requests"], limited["block_hits"]) == (2, 1)


def test_the_dashboard_of_the_cache_alone(run: Run, mooncake: Path) -> None:
    done = run("simulate", "--trace", mooncake, "--prefix-caching", "--cache-only", "--blocks", 1000)
    assert done.code == 0
    lines = [line.strip() for line in done.out.splitlines()]
    for line in (
        "trace:                   mooncake.jsonl  (mooncake-jsonl)",
        "pool:                    1,000 blocks  (256 KiB a block)",
        "block hit:               55.56 %  (15 of 27)",
        "evictions:               0  (blocks that lost their content to another)",
    ):
        assert line in lines
    assert any(line.startswith("full block hit:") for line in lines)
    assert lines[-1] == "PASS: 6 of 6 requests replayed; the manager's checks hold"
    assert any("skipped row 8, column hash_ids: has 2 ids; 20 tokens have 1" in line for line in lines)
    quiet = run("simulate", "--trace", mooncake, "--prefix-caching", "--cache-only", "--quiet")
    assert quiet.out == lines[-1] + "\n"


def test_a_pool_in_bytes_is_cut_into_the_traces_blocks(run: Run, mooncake: Path) -> None:
    options = ("simulate", "--trace", mooncake, "--prefix-caching", "--cache-only", "--json", "-")
    assert run(*options).document["config"]["blocks"] == 1024  # 256 MiB of 512 x 512 bytes
    assert run(*options, "--pool-size", "3MiB", "--token-bytes", 1024).document["config"]["blocks"] == 6
    assert_refused(run(*options, "--pool-size", "1KiB"), "262144 bytes")


def test_packed_and_plain_files_give_the_same(run: Run, mooncake: Path) -> None:
    packed = mooncake.with_suffix(".gz")
    packed.write_bytes(gzip.compress(mooncake.read_bytes()))

    def figures(file: Path) -> dict[str, Any]:
        found: dict[str, Any] = run("simulate", "--trace", file, "--prefix-caching", "--json", "-").document["figures"]
        return found

    assert figures(packed) == figures(mooncake)


def test_bad_input(run: Run, mooncake: Path, trace: Path) -> None:
    caching = ("simulate", "--trace", mooncake, "--prefix-caching")
    for size in (24, 3, 1024, 513):
        assert_refused(run(*caching, "--block-size", size), f"block_size is {size}", "divides 512")
    for group in ("--samples", "--beam-width"):
        assert_refused(run("simulate", "--prefix-caching", group, 2), "--prefix-caching", group)
    assert_refused(run(*caching, "--strict"), "row 7", "output_length")
    cut = mooncake.with_suffix(".gz")
    cut.write_bytes(gzip.compress(mooncake.read_bytes())[:-20])
    assert_refused(run("simulate", "--trace", cut, "--prefix-caching"), str(cut), "cannot be unpacked")
    no_objects = mooncake.with_name("no_objects.jsonl")
    no_objects.write_text('[1, 2]\n"hash_ids"\n')
    assert_refused(run("simulate", "--trace", no_objects, "--prefix-caching"), "format unknown", "mooncake-jsonl")
    no_objects.write_text('{"timestamp": 0, "input_length": 5, "output_length": 1}\n')
    assert_refused(run("simulate", "--trace", no_objects), "row 1, column hash_ids", "is missing")
    assert_refused(run("simulate", "--trace", trace, "--prefix-caching", "--cache-only"), "hash_ids")


@pytest.mark.parametrize(
    "option",
    [
        ("--closed-loop",),
        ("--max-seq-len", 5),
        ("--concurrency", 5),
        ("--completions", 5),
        ("--samples", 2),
        ("--beam-width", 2),
        ("--beam-survival", "0.5"),
        ("--seed", 1),
        ("--step-ms", 50),
        ("--max-seqs", 5),
        ("--admission", "final"),
        ("--watermark", "1%"),
        ("--device", "host"),
        ("--verify",),
        ("--block-size", 512),
        ("--pool-size", "1GiB", "--blocks", 5),
    ],
    ids=lambda option: option[0],
)
def test_options_that_the_cache_alone_has_no_use_for(run: Run, mooncake: Path, option: tuple[object, ...]) -> None:
    done = run("simulate", "--trace", mooncake, "--prefix-caching", "--cache-only", *option)
    assert_refused(done, str(option[0]))


def test_the_cache_alone_needs_its_two_options(run: Run, mooncake: Path) -> None:
    assert_refused(run("simulate", "--trace", mooncake, "--cache-only"), "--prefix-caching")
    assert_refused(run("simulate", "--prefix-caching", "--cache-only"), "--trace")
