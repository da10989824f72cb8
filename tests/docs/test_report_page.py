"""The commands of the page about reports run in order and print what is shown. They need the extra `report`."""

from __future__ import annotations

from pathlib import Path

import pytest

from .pages import REPOSITORY, blocks, run_pagedkv

pytest.importorskip("jinja2", reason="jinja2 is not installed; the extra `report` brings it")
pytest.importorskip("plotly", reason="plotly is not installed; the extra `report` brings it")


def test_commands_print_as_shown(tmp_path: Path) -> None:
    (block,) = (block for block in blocks(REPOSITORY / "docs" / "report.md") if block.language == "bash")
    commands = 0
    printed: list[str] = []
    for line in block.body.splitlines():
        if line.startswith("$ pagedkv "):
            ran = run_pagedkv(line.split()[2:], tmp_path)
            assert (ran.returncode, ran.stderr) == (0, ""), line
            printed, commands = ran.stdout.splitlines(), commands + 1
        elif line != "...":
            assert line in printed
    assert commands == 4
    assert {file.name for file in tmp_path.glob("*.html")} == {"small.html", "large.html", "both.html"}
