"""The example engine as users run it: answers are those of one-by-one generation, also when memory runs out."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from examples.loading import FOLDER

pytest.importorskip("torch")
pytest.importorskip("transformers")


def figures(*options: str) -> dict[str, int]:
    """Run the example; what it counted."""
    command = [sys.executable, str(FOLDER / "tiny_engine.py"), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "leaked" not in done.stderr
    return {
        name: int(number) for number, name in re.findall(r"(\d+) (steps|computed|cached|preemptions|of)\b", done.stdout)
    }


def test_memory_for_all() -> None:
    counted = figures("--blocks", "200", "--requests", "6", "--answer", "12")
    assert counted["preemptions"] == counted["of"] == 0
    assert counted["steps"] >= 12


def test_memory_for_few_preempts_and_reuses() -> None:
    counted = figures("--blocks", "14", "--requests", "8", "--answer", "12")
    assert counted["of"] == 0
    assert counted["preemptions"] > 0
    assert counted["cached"] >= 7 * 32  # what the prompts begin with is computed once


def test_a_request_that_never_fits_ends_it() -> None:
    command = [sys.executable, str(FOLDER / "tiny_engine.py"), "--blocks", "3", "--requests", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode != 0
    assert "NeverFitsError" in done.stderr
