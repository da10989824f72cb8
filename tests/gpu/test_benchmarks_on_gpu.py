"""The GPU benchmarks run at tiny sizes, so that none rots between measurements. No timing is asserted."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.gpu


def test_a_tiny_run_writes_a_whole_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(Path(__file__).resolve().parents[2]), *sys.path])  # they are not installed
    from benchmarks.gpu.__main__ import BENCHMARKS, main

    file = tmp_path / "report.json"
    assert main(["--tiny", "--json", str(file)]) == 0
    report = json.loads(file.read_text(encoding="utf-8"))
    assert [entry["name"] for entry in report["benchmarks"]] == [benchmark.name for benchmark in BENCHMARKS]
    rows = [row for entry in report["benchmarks"] for row in entry["rows"]]
    assert all(row["value"] > 0 for row in rows)
    assert len({row["case"] for row in rows}) == len(rows)
    assert {"name", "memory_bytes", "cuda_driver_api"} <= set(report["gpu"])
    assert {"cuda-core", "cuda-bindings", "nvrtc", "pagedkv"} <= set(report["versions"])
