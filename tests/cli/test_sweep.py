"""`pagedkv sweep`: the same figures as `pagedkv simulate`, in one table, each of them computed once."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pagedkv.cli.sweep_program import simulate_configuration, simulation_options
from pagedkv.sweep.program import FILE

from .conftest import Run
from .test_bad_input import assert_refused
from .test_processes import HEARS_CTRL_C, in_terminal, posix

SPEC = """
[fixed]
trace = "trace.csv"

[grid]
block-size = [8, 16]
watermark = [0, "10%"]

[[also]]
blocks = 64
compare = true
"""


@pytest.fixture
def spec(trace: Path, tmp_path: Path) -> Path:
    file = tmp_path / "spec.toml"
    file.write_text(SPEC.replace("[grid]", "[grid]\nblocks = [40]"), encoding="ascii")
    return file


def table(out: str) -> list[list[str]]:
    lines = out.splitlines()
    at = lines.index("Results, means over all steps")
    return [row.split() for row in lines[at + 1 : lines.index("", at)]]


def test_a_sweep_has_the_figures_of_the_runs_that_it_stands_for(run: Run, spec: Path, trace: Path) -> None:
    done = run("sweep", spec, "--workers", 2, "--json", "-")
    assert done.code == 0
    assert done.document["work"] == {"ran": 5, "from_store": 0}
    rows = done.document["configurations"]
    assert [row["name"] for row in rows][3:] == [
        "blocks 40, block-size 16, watermark 10%",
        "blocks 64, compare true",
    ]
    given: list[tuple[object, ...]] = [
        ("--blocks", 40, "--block-size", size, "--watermark", mark) for size in (8, 16) for mark in ("0", "10%")
    ]
    for row, options in zip(rows, [*given, ("--blocks", 64, "--compare")], strict=True):
        alone = run("simulate", "--trace", trace, "--device", "null", *options, "--json", "-").document
        for name in ("figures", "systems", "failures", "notes", "outcome"):
            assert row[name] == alone[name], (row["name"], name)


def test_a_repeated_sweep_costs_nothing_and_looks_the_same(
    run: Run, spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = run("sweep", spec, "--csv", tmp_path / "first.csv", "--json", tmp_path / "first.json")
    assert (first.code, first.err) == (0, "")
    assert len(list((tmp_path / "spec.results").iterdir())) == 5

    def started(*arguments: object) -> None:
        raise AssertionError("a worker was started")

    monkeypatch.setattr("pagedkv.cli.sweep_run.LocalWorkers", started)
    again = run("sweep", spec, "--csv", tmp_path / "again.csv", "--json", tmp_path / "again.json")
    assert again.code == 0
    assert table(again.out) == table(first.out)
    assert again.out.splitlines()[-1] == "PASS: 5 of 5 configurations, 5 of them from the store"
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "first.csv").read_bytes()
    both = [json.loads((tmp_path / f"{name}.json").read_text()) for name in ("first", "again")]
    assert [one.pop("work")["ran"] for one in both] == [5, 0]
    assert all("sweep" in one.pop("command_line") for one in both)
    assert both[0] == both[1]


def test_the_table_and_the_csv_say_what_varies(run: Run, spec: Path, tmp_path: Path) -> None:
    done = run("sweep", spec, "--csv", tmp_path / "all.csv")
    header, *rows = table(done.out)
    assert header[:5] == ["#", "blocks", "block-size", "watermark", "compare"]
    assert [row[:5] for row in rows][3:] == [["4", "40", "16", "10%", "-"], ["5", "64", "-", "-", "true"]]
    read = list(csv.DictReader(io.StringIO((tmp_path / "all.csv").read_text())))
    assert [row["option.block_size"] for row in read] == ["8", "8", "16", "16", ""]
    assert [row["outcome"] for row in read] == ["PASS"] * 5
    for row, shown in zip(read, rows, strict=True):
        assert int(row["completed"]) == 38 == int(shown[5])
        assert f"{float(row['mean_block_utilization']) * 100:.2f}" == shown[8]
    assert read[4]["systems.max.first_fit.steps"].isdigit()
    assert read[0]["systems.max.first_fit.steps"] == ""


def test_a_trace_that_changes_is_run_again(run: Run, spec: Path, trace: Path) -> None:
    run("sweep", spec)
    trace.write_text(trace.read_text(encoding="ascii").replace(",20,5", ",21,5"), encoding="ascii")
    assert run("sweep", spec, "--json", "-").document["work"] == {"ran": 5, "from_store": 0}


def test_a_configuration_that_fails_is_a_row(run: Run, trace: Path, tmp_path: Path) -> None:
    """That its prompts say nothing of what they hold shows when the trace is replayed over the cache."""
    spec = tmp_path / "spec.toml"
    text = "[fixed]\ntrace = 'trace.csv'\nprefix-caching = true\n[grid]\ncache-only = [false, true]"
    spec.write_text(text, encoding="ascii")
    done = run("sweep", spec, "--json", tmp_path / "out.json", "--csv", tmp_path / "out.csv")
    assert done.code == 1
    assert [row[-1] for row in table(done.out)[1:]] == ["PASS", "ERROR"]
    assert done.out.splitlines()[-1].startswith("FAIL: 1 of 2 configurations failed; 2 of 2 configurations")
    error = json.loads((tmp_path / "out.json").read_text())["configurations"][1]["error"]
    assert f"note: configuration 2 (cache-only true): {error['error']}: {error['message']}" in done.out.splitlines()
    assert error["message"] in list(csv.DictReader(io.StringIO((tmp_path / "out.csv").read_text())))[1]["error"]
    assert len(list((tmp_path / "spec.results").iterdir())) == 1


def test_whatever_describes_a_run_can_be_swept() -> None:
    options = simulation_options()
    assert not {"json", "quiet", "save_trace"} & set(options)
    kinds = {name: (option.kind, option.default, option.path) for name, option in options.items()}
    assert kinds["trace"] == ("text", None, FILE)
    assert kinds["lengths_from"] == ("text", None, FILE)
    assert kinds["block_size"] == ("whole", None, None)
    assert kinds["token_bytes"] == ("whole", None, None)
    assert kinds["compare"] == ("flag", False, None)
    assert kinds["verify"] == ("flag", None, None)
    assert kinds["device"] == ("text", "null", None)
    assert kinds["rate"] == ("text", None, None)


def test_a_result_has_nothing_of_the_moment_in_it() -> None:
    documents = [simulate_configuration({"completions": 5, "device": "host"}) for _ in range(2)]
    assert documents[0] == documents[1]
    assert documents[0]["device"]["free_bytes"] is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[grid]\nblock-size = [16, 0]", ["configuration 2 (block-size 0)"]),
        ("[grid]\nwatermark = ['1%', '100%']", ["configuration 2 (watermark 100%)", "--watermark"]),
        ("[grid]\nblocks = [4]\npool-size = ['1MiB']", ["configuration 1", "--blocks and --pool-size"]),
        ("[grid]\ntrace = ['trace.csv', 'gone.csv']", ["configuration 2 (trace gone.csv)", "cannot be read"]),
        ("[grid]\ntrace = ['spec.toml']", ["configuration 1", "format unknown"]),
        ("[fixed]\nsave-trace = 'x'\n[grid]\nseed = [1]", ["fixed, save-trace", "no option of a sweep"]),
        ("[fixed]\nquiet = true\n[grid]\nseed = [1]", ["fixed, quiet"]),
        ("[grid]\ncache-only = [true]", ["configuration 1", "--prefix-caching"]),
        ("[grid]\ndevice = ['tpu']", ["configuration 1", "tpu"]),
    ],
)
def test_a_sweep_that_cannot_run_is_refused_with_its_place(
    run: Run, trace: Path, tmp_path: Path, text: str, words: list[str]
) -> None:
    (tmp_path / "spec.toml").write_text(text, encoding="ascii")
    done = run("sweep", tmp_path / "spec.toml", "--json", tmp_path / "x.json", "--csv", tmp_path / "x.csv")
    assert_refused(done, "spec.toml", *words)
    assert {file.name for file in tmp_path.iterdir()} == {"spec.toml", "trace.csv"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--workers", 0), ["--workers"]),
        (("--workers", 2, "--dask", "tcp://127.0.0.1:1"), ["--workers", "--dask"]),
        (("--dask", "tcp://10.0.0.1:8786"), ["tls://10.0.0.1:8786"]),
        (("--dask", "nowhere"), ["not understood"]),
        (("--store", ""), ["--store"]),
        (("--store", "spec.toml"), ["cannot be stored"]),
        (("--csv", "no/such/folder.csv"), ["CSV file"]),
        (("--csv", "."), ["CSV file"]),
        (("--json", "spec.toml"), ["SPEC.toml's file"]),
        (("--csv", "spec.toml"), ["SPEC.toml's file"]),
        (("--csv", "trace.csv"), ["trace.csv's file"]),
        (("--json", "trace.csv"), ["trace.csv's file"]),
        (("--csv", "one", "--json", "one"), ["--json's file"]),
    ],
)
def test_bad_options(
    run: Run, spec: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[object, ...], words: list[str]
) -> None:
    monkeypatch.chdir(spec.parent)
    before = (spec.parent / "trace.csv").read_bytes()
    assert_refused(run("sweep", spec.name, *options), *words)
    assert (spec.parent / "trace.csv").read_bytes() == before
    assert not (spec.parent / "spec.results").exists()


def _start(spec: Path, *options: str) -> subprocess.Popen[str]:
    command = [*HEARS_CTRL_C, "sweep", str(spec), *options]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8", start_new_session=True
    )


def _until(so: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not so():
        assert time.monotonic() < end
        time.sleep(0.01)


def _is_there(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@posix
@pytest.mark.parametrize("to_all", [False, True])
def test_ctrl_c_keeps_what_ended(run: Run, tmp_path: Path, to_all: bool) -> None:
    """To the command alone, or to its workers too, as a terminal does; the long run would take many minutes."""
    spec, store = tmp_path / "spec.toml", tmp_path / "spec.results"
    text = "[fixed]\nclosed-loop = true\nconcurrency = 64\n[grid]\ncompletions = [10, 10000000]"
    spec.write_text(text, encoding="ascii")
    with _start(spec, "--workers", "2") as process:
        _until(lambda: process.poll() is not None or list(store.glob("[0-9a-f]*.json")) != [])
        assert process.poll() is None
        (os.killpg if to_all else os.kill)(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (130, "")
    last = "INTERRUPTED: 1 of 2 configurations, 0 of them from the store; the same command goes on from here"
    assert out.splitlines()[-1] == last
    _until(lambda: not _is_there(process.pid))  # no worker outlives the command
    spec.write_text(text.replace("10000000", "20"), encoding="ascii")
    assert run("sweep", spec, "--json", "-").document["work"] == {"ran": 1, "from_store": 1}


def test_two_sweeps_at_once_on_one_store(tmp_path: Path) -> None:
    spec = tmp_path / "spec.toml"
    spec.write_text("[fixed]\ncompletions = 30\n[grid]\nseed = [1, 2, 3, 4]\nblock-size = [8, 16]", encoding="ascii")
    processes = [_start(spec, "--workers", "1", "--json", str(tmp_path / f"{i}.json")) for i in range(2)]
    for process in processes:
        with process:
            _, err = process.communicate(timeout=120)
        assert (process.returncode, err) == (0, "")
    both: list[dict[str, Any]] = [json.loads((tmp_path / f"{i}.json").read_text()) for i in range(2)]
    assert both[0]["configurations"] == both[1]["configurations"]
    assert len(list((tmp_path / "spec.results").iterdir())) == 8


@posix
@pytest.mark.filterwarnings("ignore:.*forkpty.*:DeprecationWarning")
def test_a_terminal_shows_how_long_the_rest_takes(tmp_path: Path) -> None:
    spec = tmp_path / "spec.toml"
    spec.write_text("[fixed]\ncompletions = 4000\n[grid]\nseed = [1, 2, 3, 4, 5, 6]", encoding="ascii")
    shown = in_terminal("sweep", str(spec), "--workers", "1", columns=120, environment={"NO_COLOR": "1"})
    bars = [piece for piece in re.split(r"[\r\n]", shown) if "/6" in piece]
    assert any(re.search(r"left \S*0:00:\d\d", bar) for bar in bars), bars
    assert "PASS: 6 of 6 configurations" in shown.replace("\x1b[1m", "").replace("\x1b[0m", "")


def test_nothing_heavy_is_loaded_for_a_sweep_that_is_done(run: Run, spec: Path) -> None:
    run("sweep", spec)
    code = (
        "import sys\nfrom pagedkv.cli import main\nsys.argv = ['pagedkv', 'sweep', sys.argv[1], '--quiet']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print([name for name in ('rich', 'cuda', 'torch', 'distributed') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(spec)], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
