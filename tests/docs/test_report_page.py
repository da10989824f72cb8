"""The commands of the page about reports run in order and print what is shown. They need the extra `report`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .pages import REPOSITORY, blocks

pytest.importorskip("jinja2", reason="jinja2 is not installed; the extra `report` brings it")
pytest.importorskip("plotly", reason="plotly is not installed; the extra `report` brings it")


def test_commands_print_as_shown(tmp_path: Path) -> None:
    (block,) = (block for block in blocks(REPOSITORY / "docs" / "report.md") if block.language == "bash")
    commands = 0
    printed: list[str] = []
    for line in block.body.splitlines():
        if line.startswith("$ pagedkv "):
            ran = subprocess.run(
                [sys.executable, "-m", "pagedkv.cli", *line.split()[2:]],
                cwd=tmp_path,
                env=os.environ | {"PYTHONUTF8": "1"},
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            assert (ran.returncode, ran.stderr) == (0, ""), line
            printed, commands = ran.stdout.splitlines(), commands + 1
        elif line != "...":
            assert line in printed
    assert commands == 4
    assert {file.name for file in tmp_path.glob("*.html")} == {"small.html", "large.html", "both.html"}
