"""Where output cannot go: a message and an exit code, and nothing of the user's is overwritten."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "pagedkv.cli", "simulate", "--completions", "3"]
posix = pytest.mark.skipif(os.name != "posix", reason="shell redirections of POSIX")


def shell(redirection: str, *more: str) -> subprocess.CompletedProcess[str]:
    line = f"{' '.join([*COMMAND, *more])} {redirection}"
    return subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=60, check=False)


@posix
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("more", [(), ("--quiet",), ("--json", "-")])
def test_a_full_disk_is_a_message(more: tuple[str, ...]) -> None:
    done = shell("> /dev/full", *more)
    assert done.returncode == 1
    assert done.stderr.startswith("error: output was not written")
    assert "Traceback" not in done.stderr


@posix
def test_a_file_name_that_is_no_text_is_shown(tmp_path: Path) -> None:
    trace = tmp_path / os.fsdecode(b"requests \xff.csv")
    try:
        trace.write_text("input_len,output_len\n10,5\n", encoding="utf-8")
    except OSError:
        pytest.skip("this file system takes no such name")
    line = [*COMMAND[:4], "--device", "null", "--trace", str(trace)]
    # An encoding without `surrogateescape`, as in every locale but that of POSIX.
    strict = os.environ | {"PYTHONIOENCODING": "utf-8:strict"}
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False, env=strict)
    assert (done.returncode, done.stderr) == (0, "")
    assert "requests \\udcff.csv" in done.stdout


@posix
@pytest.mark.parametrize("more", [(), ("--json", "-")])
def test_closed_standard_output_is_no_traceback(more: tuple[str, ...]) -> None:
    done = shell(">&-", *more)
    assert (done.returncode, done.stderr) == (0, "")


@posix
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("arguments", ["--version", "--help", "simulate --help", "doctor", "cache"])
def test_no_output_at_all_is_a_message_too(arguments: str) -> None:
    line = f"{sys.executable} -m pagedkv.cli {arguments} > /dev/full"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (1, "error: output was not written (No space left on device)\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_file_that_takes_no_bytes_fails_before_the_run() -> None:
    done = subprocess.run([*COMMAND, "--json", "/dev/full"], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "cannot be written (No space left on device)" in done.stderr


def test_what_a_file_holds_survives_a_run_that_fails(tmp_path: Path) -> None:
    file = tmp_path / "old.json"
    file.write_text("old", encoding="utf-8")
    arguments = [*COMMAND, "--device", "nowhere", "--json", str(file)]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert file.read_text(encoding="utf-8") == "old"


def test_the_trace_is_not_overwritten_by_its_document(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,48,10\n", encoding="utf-8")
    before = trace.read_text(encoding="utf-8")
    arguments = [*COMMAND[:4], "--trace", str(trace), "--json", str(trace)]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "is the trace itself" in done.stderr
    assert trace.read_text(encoding="utf-8") == before


def test_a_closed_loop_that_would_fill_memory_is_refused() -> None:
    done = subprocess.run(
        [*COMMAND, "--closed-loop", "--concurrency", "2000000000"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "concurrency is 2000000000" in done.stderr
