"""The committed stub is the module's: `_core.pyi` equals a freshly generated one."""

from __future__ import annotations

import difflib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_committed_stub_is_up_to_date(tmp_path: Path) -> None:
    pytest.importorskip("nanobind", reason="nanobind generates the stub")
    fresh = tmp_path / "_core.pyi"
    command = [sys.executable, "-m", "nanobind.stubgen", "-q", "-m", "pagedkv._core", "-o", str(fresh)]
    subprocess.run([*command, "-p", str(ROOT / "native/bindings/stub.pat")], check=True, cwd=tmp_path)
    committed = ROOT / "src/pagedkv/_core.pyi"
    lines = difflib.unified_diff(
        committed.read_text(encoding="utf-8").splitlines(),
        fresh.read_text(encoding="utf-8").splitlines(),
        "committed",
        "generated",
        lineterm="",
    )
    assert "\n".join(lines) == "", f"run {' '.join(command[:-1])} src/pagedkv/_core.pyi -p native/bindings/stub.pat"
