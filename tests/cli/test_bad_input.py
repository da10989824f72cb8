"""Bad input: a message on standard error that names the fault, exit code 2, nothing run, no traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Finished, Run


def assert_refused(done: Finished, *words: str) -> None:
    assert done.code == 2
    assert done.out == ""
    assert "Traceback" not in done.err
    message = done.err.strip().splitlines()[-1]
    assert message.lower().startswith("error: ")
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    "option",
    [
        "--blocks",
        "--block-size",
        "--token-bytes",
        "--max-seq-len",
        "--concurrency",
        "--completions",
        "--max-seqs",
        "--samples",
        "--beam-width",
    ],
)
@pytest.mark.parametrize("value", ["0", "-1", "2.5", "16.0", "nan", "inf", "1e3", "", "x", "9" * 30, "9" * 5000])
def test_l3_numbers_that_make_no_sense(run: Run, option: str, value: str) -> None:
    assert_refused(run("simulate", option, value))


@pytest.mark.parametrize("option", ["--limit", "--concurrency", "--completions", "--max-seqs", "--max-seq-len"])
@pytest.mark.parametrize("value", ["0", "-1", "2.5"])
def test_l3_the_same_with_a_trace(run: Run, trace: Path, option: str, value: str) -> None:
    assert_refused(run("simulate", "--trace", trace, option, value))


@pytest.mark.parametrize("value", ["-1", "1.5", "nan"])
def test_bad_seeds(run: Run, value: str) -> None:
    assert_refused(run("simulate", "--seed", value))
    assert_refused(run("selftest", "--seed", value))


@pytest.mark.parametrize("size", ["0", "-1", "1", "8191", "1.5GiB", "256MB", "nan", "", "MiB", "9" * 25, "1e9"])
def test_pool_sizes(run: Run, size: str) -> None:
    assert_refused(run("simulate", "--pool-size", size))


def test_a_pool_smaller_than_a_block_names_both(run: Run) -> None:
    assert_refused(run("simulate", "--pool-size", "4KiB"), "--pool-size 4KiB", "8192 bytes")


@pytest.mark.parametrize("watermark", ["-1", "1.5", "100%", "250 %", "nan", "nan%", "%", "32768", "9" * 40, "1%%", ""])
def test_m1_watermarks(run: Run, watermark: str) -> None:
    assert_refused(run("simulate", "--watermark", watermark), "watermark")


@pytest.mark.parametrize("step", ["0", "-50", "nan", "inf", "1e3", "", "0.00001", "9" * 19, "50ms"])
def test_steps(run: Run, trace: Path, step: str) -> None:
    assert_refused(run("simulate", "--trace", trace, "--step-ms", step), "--step-ms")


@pytest.mark.parametrize(
    ("device", "word"),
    [("tpu", "tpu"), ("cuda:99", "cuda:99"), ("", "''"), ("cuda:-1", "cuda:-1"), ("HOST", "HOST")],
)
def test_devices(run: Run, device: str, word: str) -> None:
    assert_refused(run("simulate", "--device", device), word)
    assert_refused(run("selftest", "--device", device), word)


def test_null_has_no_bytes_to_check(run: Run) -> None:
    assert_refused(run("simulate", "--device", "null", "--verify"), "null", "host")
    assert_refused(run("selftest", "--device", "null"), "null", "host")


def test_options_that_exclude_each_other(run: Run, trace: Path) -> None:
    assert_refused(run("simulate", "--blocks", 5, "--pool-size", "1MiB"), "--blocks", "--pool-size")
    assert_refused(run("simulate", "--trace", trace, "--closed-loop"), "--closed-loop", "--trace")
    for option in (("--limit", 5), ("--step-ms", 50), ("--strict",)):
        assert_refused(run("simulate", *option), option[0], "--trace")


def test_what_a_request_is_is_said_once(run: Run, trace: Path) -> None:
    assert_refused(run("simulate", "--samples", 2, "--beam-width", 2), "--samples", "--beam-width", "one of them")
    assert_refused(run("simulate", "--trace", trace, "--samples", 2, "--beam-width", 2), "--samples", "--beam-width")
    for size in ("--samples", "--beam-width"):
        assert_refused(run("simulate", size, 65_537), size, "65536")
    assert_refused(run("simulate", "--samples", 4, "--beam-survival", "0.5"), "--beam-survival", "--beam-width")


@pytest.mark.parametrize("survival", ["-0.1", "1.1", "nan", "inf", "", "1e-1", "90%", "x", "9" * 40])
def test_survivals(run: Run, survival: str) -> None:
    assert_refused(run("simulate", "--beam-width", 4, "--beam-survival", survival), "--beam-survival", "0 to 1")


@pytest.mark.parametrize("admission", ["", "Grow", "last", "x" * 1000])
def test_admissions(run: Run, admission: str) -> None:
    assert_refused(run("simulate", "--admission", admission), "--admission", "grow or final")


def test_unknown_options_and_commands(run: Run) -> None:
    assert_refused(run("simulate", "--bogus"))
    assert_refused(run("bogus"))
    assert_refused(run("simulate", "extra"))


def test_traces_that_cannot_be_read(run: Run, tmp_path: Path) -> None:
    for name, content in (("empty.csv", b""), ("binary.csv", bytes(range(256)) * 50), ("wrong.csv", b"a,b\n1,2\n")):
        file = tmp_path / name
        file.write_bytes(content)
        assert_refused(run("simulate", "--trace", file), str(file))
    assert_refused(run("simulate", "--trace", tmp_path / "missing.csv"), "missing.csv", "cannot be read")
    assert_refused(run("simulate", "--trace", tmp_path), "a folder without .json files")


def test_strict_stops_at_the_first_bad_row(run: Run, trace: Path) -> None:
    assert_refused(run("simulate", "--trace", trace, "--strict"), "row 39", "GeneratedTokens")


@pytest.mark.parametrize("target", ["no/such/folder/x.json", ".", "", "x\0y"])
def test_json_that_cannot_be_written_fails_before_the_run(
    run: Run, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    # The trace does not exist either: the output is looked at first.
    assert_refused(run("simulate", "--json", target, "--trace", "missing.csv"), "cannot be written")


def test_a_failed_start_leaves_no_json_file_and_spoils_none(run: Run, tmp_path: Path) -> None:
    fresh, old = tmp_path / "fresh.json", tmp_path / "old.json"
    old.write_text("{}")
    for file in (fresh, old):
        assert_refused(run("simulate", "--json", file, "--blocks", 0))
    assert not fresh.exists()
    assert old.read_text() == "{}"


def test_a_full_disk_is_an_error_not_a_traceback(run: Run) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full on this system")
    done = run("simulate", "--quiet", "--json", full)
    assert done.code == 2
    assert "cannot be written" in done.err
    assert full.exists()


def test_more_memory_than_there_is(run: Run) -> None:
    done = run("simulate", "--pool-size", "4096TiB", "--token-bytes", 2**30, "--device", "host")
    assert_refused(done, "ask for a smaller pool")
