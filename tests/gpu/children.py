"""Programs in an interpreter of their own: what an exit or a failed device leaves must not touch this one."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

_TESTS = Path(__file__).resolve().parents[1]


def run_child(program: str) -> subprocess.CompletedProcess[str]:
    """Run the program (indented as you like); it can import the packages of tests/."""
    path = os.pathsep.join(filter(None, [str(_TESTS), os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
