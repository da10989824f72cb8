"""The README's figures are those of the committed results."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_readme_shows_the_committed_figures() -> None:
    sys.path.insert(0, str(ROOT))  # benchmarks are not installed
    updated = import_module("benchmarks.readme_figures").updated
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert readme == updated(readme), "run python -m benchmarks.readme_figures"
