"""What needs a process of its own: Ctrl-C, terminals, closed pipes, imports."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

COMMAND = [sys.executable, "-m", "pagedkv.cli"]
# Ten million completions take many minutes, if nobody ends it.
LONG_RUN = ["simulate", "--closed-loop", "--completions", "10000000", "--concurrency", "64", "--no-verify"]

posix = pytest.mark.skipif(os.name != "posix", reason="signals to and terminals of a child process: POSIX only")


# A shell starts background jobs with SIGINT ignored, and children inherit that; the program of a terminal hears it.
HEARS_CTRL_C = [
    sys.executable,
    "-c",
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "import sys; from pagedkv.cli import main; sys.exit(main())",
]


def interrupt(*arguments: str) -> tuple[int, str, str]:
    """Start a long run, press Ctrl-C once it simulates, and return what it leaves."""
    process = subprocess.Popen(
        [*HEARS_CTRL_C, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8"
    )
    time.sleep(4)  # starting takes a fraction of a second; an earlier signal is tested below
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    return process.returncode, out, err


@posix
def test_ctrl_c_ends_with_the_figures_so_far(tmp_path: Path) -> None:
    file = tmp_path / "partial.json"
    code, out, err = interrupt(*LONG_RUN, "--json", str(file))
    assert code == 130
    assert "Traceback" not in err
    assert out.splitlines()[-1].startswith("INTERRUPTED: ")
    document: dict[str, Any] = json.loads(file.read_text())
    assert document["outcome"] == "INTERRUPTED"
    assert 0 < document["figures"]["completed"] < 10_000_000
    assert document["failures"] == []


@posix
def test_ctrl_c_before_the_first_step(tmp_path: Path) -> None:
    fifo = tmp_path / "trace.csv"
    os.mkfifo(fifo)  # reading waits for a writer that never comes
    process = subprocess.Popen([*HEARS_CTRL_C, "simulate", "--trace", str(fifo)], stderr=subprocess.PIPE, text=True)
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err == "interrupted\n"


# Presses Ctrl-C with the n-th import after our entry point is there: at a place, since a busy machine moves times.
CTRL_C_AT_AN_IMPORT = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from pagedkv.cli import main
left = int(sys.argv.pop(1))
def press(event, arguments):
    global left
    if event == "import":
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGINT)
            print("pressed", file=sys.stderr)
sys.addaudithook(press)
sys.exit(main())
"""


@posix
@pytest.mark.parametrize("place", [1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610])
def test_ctrl_c_while_it_starts(place: int) -> None:
    """From our first line on, in the middle of whatever is loaded; before it, the interpreter answers."""
    program = [sys.executable, "-c", CTRL_C_AT_AN_IMPORT, str(place), "simulate"]
    run = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)
    assert "Traceback" not in run.stderr
    if "pressed" in run.stderr or "interrupted" in run.stderr or run.returncode:
        assert run.returncode == 130
    else:
        assert place > 144, "fewer imports than that would be no test"


def in_terminal(*arguments: str, columns: int, environment: dict[str, str]) -> str:
    """Run on a pseudo-terminal of that width and return all it showed."""
    import pty

    child, master = pty.fork()
    if child == 0:
        os.environ.update({"COLUMNS": str(columns), "LINES": "60", "TERM": "xterm-256color"} | environment)
        os.execv(COMMAND[0], [*COMMAND, *arguments])
    shown = b""
    while True:
        try:
            piece = os.read(master, 65536)
        except OSError:  # Linux: the other end is closed
            break
        if not piece:
            break
        shown += piece
    os.close(master)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    return shown.decode("utf-8")


@posix
@pytest.mark.filterwarnings("ignore:.*forkpty.*:DeprecationWarning")
@pytest.mark.parametrize("columns", [80, 120])
def test_the_dashboard_fits_the_terminal(columns: int) -> None:
    shown = in_terminal("simulate", columns=columns, environment={"NO_COLOR": "1"})
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown).replace("\r\n", "\n").splitlines()
    assert max(map(len, lines)) <= columns
    assert any("36.72 %" in line for line in lines)
    # NO_COLOR: no color codes (38;, 3x, 9x); bold and dim are no colors.
    assert "\x1b[32m" not in shown
    assert "\x1b[1;32m" not in shown
    side_by_side = any("Configuration" in line and "Requests" in line for line in lines)
    assert side_by_side == (columns == 120)


@posix
@pytest.mark.filterwarnings("ignore:.*forkpty.*:DeprecationWarning")
def test_colors_and_progress_on_a_terminal() -> None:
    options = ("--completions", "100000", "--concurrency", "64", "--no-verify")
    shown = in_terminal("simulate", *options, columns=100, environment={})
    assert "\x1b[1;32mPASS" in shown
    assert "/100000" in shown  # the bar's count


def test_no_progress_and_no_escape_codes_in_a_pipe() -> None:
    options = ["--completions", "100000", "--concurrency", "64", "--no-verify"]
    done = subprocess.run([*COMMAND, "simulate", *options], capture_output=True, text=True, check=True, timeout=120)
    assert "\x1b" not in done.stdout
    assert done.stderr == ""


@posix
def test_a_reader_that_goes_away_is_no_traceback() -> None:
    process = subprocess.Popen([*COMMAND, "simulate"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    process.wait(timeout=60)
    assert b"Traceback" not in err
    assert process.returncode != 0


def test_what_a_plain_run_imports() -> None:
    """rich costs a tenth of a second; runs without a terminal must not pay for it, and never for CUDA."""
    code = (
        "import sys\nfrom pagedkv.cli import main\nsys.argv = ['pagedkv', 'simulate', '--quiet']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print([name for name in ('rich', 'cuda', 'torch') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "[]"
