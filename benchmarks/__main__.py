"""`python -m benchmarks [NAMES] [--json FILE] [--vllm-results DIR]`: measure and print."""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.clock import calibrate
from benchmarks.machine import describe_machine, describe_versions, git_commit, load_average
from benchmarks.registry import BENCHMARKS
from benchmarks.report import Benchmark, Row, Settings
from benchmarks.table import render


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the chosen benchmarks; 0 whatever the verdicts are, 1 if one could not be measured."""
    options = parse(arguments)
    settings = Settings(options.tiny, options.vllm_results, options.traces, options.sglang_results)
    report = opening()
    failures = 0
    for benchmark in options.names or BENCHMARKS:
        print(f"\n{benchmark.name}: {benchmark.summary}", flush=True)
        try:
            rows = list(benchmark.run(settings))
        except (subprocess.CalledProcessError, FileNotFoundError) as error:
            print(f"failed: {error}\n{getattr(error, 'stderr', None) or ''}", flush=True)
            failures += 1
            continue
        print(render(rows) if rows else "not measured: its input is missing", flush=True)
        report["benchmarks"].append(as_dict(benchmark, rows))
    report["calibration_us"].append(calibrate())
    report["load_average"].append(load_average())
    if options.json is not None:
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return min(failures, 1)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    names = ", ".join(benchmark.name for benchmark in BENCHMARKS)
    parser.add_argument("names", nargs="*", type=benchmark_named, metavar="NAMES", help=f"all, or of: {names}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="machine, versions and figures")
    parser.add_argument("--vllm-results", type=Path, metavar="DIR", help="JSON of vLLM's b2, b3 and b6")
    parser.add_argument("--sglang-results", type=Path, metavar="FILE", help="what SGLang's benchmark printed")
    traces = os.environ.get("PAGEDKV_TRACE_DIR")
    parser.add_argument("--traces", type=Path, default=traces and Path(traces), metavar="DIR", help="request traces")
    parser.add_argument("--tiny", action="store_true", help="sizes whose timings mean nothing")
    return parser.parse_args(arguments)


def benchmark_named(name: str) -> Benchmark:
    for benchmark in BENCHMARKS:
        if benchmark.name == name:
            return benchmark
    raise argparse.ArgumentTypeError(f"there is no benchmark {name!r}; --help lists them")


def opening() -> dict[str, Any]:
    """What has to be known before the first figure; paths in the command are kept to their last part."""
    words = [Path(word).name if os.sep in word else word for word in sys.argv[1:]]
    return {
        "schema": 1,
        "command": " ".join(["python", "-m", "benchmarks", *words]),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": git_commit(),
        "machine": describe_machine(),
        "versions": describe_versions(),
        "calibration_us": [calibrate()],
        "load_average": [load_average()],
        "benchmarks": [],
    }


def as_dict(benchmark: Benchmark, rows: Sequence[Row]) -> dict[str, Any]:
    return {"name": benchmark.name, "summary": benchmark.summary, "rows": [row.as_dict() for row in rows]}


if __name__ == "__main__":
    sys.exit(main())
