"""Every benchmark runs at tiny sizes, so that none rots between measurements. No timing is asserted."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # benchmarks are not installed

from benchmarks.__main__ import main
from benchmarks.registry import BENCHMARKS
from benchmarks.report import Benchmark, Row, Settings, Target
from benchmarks.vllm_results import decode_step

IN_PROCESS = [benchmark for benchmark in BENCHMARKS if benchmark.in_process]


@pytest.mark.parametrize("benchmark", IN_PROCESS, ids=lambda benchmark: benchmark.name)
def test_tiny_run_yields_positive_figures(benchmark: Benchmark) -> None:
    rows = list(benchmark.run(Settings(tiny=True)))
    assert rows
    assert len({row.case for row in rows}) == len(rows), "two rows of one case cannot be told apart"
    assert all(row.value > 0 for row in rows)
    assert all(row.unit == "x" or row.spread is not None for row in rows)


def test_report_names_machine_versions_and_command(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    assert main(["get-stats", "--tiny", "--json", str(file)]) == 0
    report = json.loads(file.read_text(encoding="utf-8"))
    assert report["schema"] == 1
    assert {"cpu", "cores", "os"} <= set(report["machine"])
    assert {"python", "numpy", "pagedkv"} <= set(report["versions"])
    assert len(report["calibration_us"]) == len(report["load_average"]) == 2
    assert [benchmark["name"] for benchmark in report["benchmarks"]] == ["get-stats"]
    assert {"case", "value", "unit", "met", "spread"} <= set(report["benchmarks"][0]["rows"][0])


def test_verdict_follows_the_bound() -> None:
    upper, lower = Target(2.0), Target(200, at_least=True)
    assert [Row("c", value, "us", upper).verdict for value in (1.9, 2.0, 2.1)] == ["met", "met", "MISSED"]
    assert [Row("c", value, "x", lower).verdict for value in (199, 200)] == ["MISSED", "met"]


def test_vllm_figure_merges_all_files_of_the_directory(tmp_path: Path) -> None:
    for number, times in enumerate(([1500.0, 1400.0], [1600.0])):
        labels = {"caching": False, "running": 256}
        other = {"bench": "decode.total/step", "labels": {"caching": True, "running": 256}, "cpu_us": [1.0]}
        content = {
            "meta": {"calib_start": [900.0 + number], "calib_end": [950.0]},
            "results": [{"bench": "decode.total/step", "labels": labels, "cpu_us": times}, other],
        }
        (tmp_path / f"b2-{number}.json").write_text(json.dumps(content), encoding="utf-8")
    figure = decode_step(tmp_path, 256)
    assert figure is not None
    assert (figure.cpu_min, figure.cpu_median, figure.samples) == (1400.0, 1500.0, 3)
    assert figure.calibration_us == 900.0
    assert decode_step(tmp_path, 64) is None
