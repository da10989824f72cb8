"""`python -m benchmarks.gpu [NAMES] [--json FILE] [--tiny]`: measure on GPU 0 and print.

PAGEDKV_COMMIT names the commit where there is no checkout.
"""

import argparse
import json
import os
import sys
import traceback
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.gpu import copy_rate, decode_attention, few_blocks, first_use, host_time, kv_rate, large_pool
from benchmarks.gpu.device import describe_gpu, describe_packages
from benchmarks.machine import describe_machine, describe_versions, git_commit
from benchmarks.report import Benchmark, Row, Settings
from benchmarks.table import render

BENCHMARKS: tuple[Benchmark, ...] = (
    first_use.BENCHMARK,
    host_time.BENCHMARK,
    copy_rate.BENCHMARK,
    few_blocks.BENCHMARK,
    large_pool.BENCHMARK,
    kv_rate.BENCHMARK,
    decode_attention.BENCHMARK,
    decode_attention.SHAPES,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the chosen benchmarks; 0 whatever the verdicts are, 1 if one could not be measured."""
    options = parse(arguments)
    settings = Settings(options.tiny)
    report = opening(options)
    everything: list[Row] = []
    failures = 0
    for benchmark in BENCHMARKS:
        if options.names and benchmark.name not in options.names:
            continue
        print(f"{benchmark.name}: {benchmark.summary} ...", flush=True)
        entry: dict[str, Any] = {"name": benchmark.name, "summary": benchmark.summary, "rows": []}
        report["benchmarks"].append(entry)
        try:
            for row in benchmark.run(settings):
                everything.append(row)
                entry["rows"].append(row.as_dict())
                if options.json is not None:  # after each, so that a time limit leaves what there is
                    options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
        except Exception as error:  # one that fails must not take the others' figures with it
            traceback.print_exc()
            print(getattr(error, "stderr", None) or "", flush=True)
            failures += 1
    print(f"\n{report['gpu']['name']}, commit {report['commit']}\n{render(everything)}", flush=True)
    return min(failures, 1)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    names = [benchmark.name for benchmark in BENCHMARKS]
    parser.add_argument("names", nargs="*", metavar="NAMES", help=f"all, or of: {', '.join(names)}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="GPU, versions and figures")
    parser.add_argument("--tiny", action="store_true", help="sizes whose timings mean nothing")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(names):
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    return options


def opening(options: argparse.Namespace) -> dict[str, Any]:
    """What has to be known before the first figure."""
    words = [*options.names, *(["--tiny"] if options.tiny else []), *(["--json", "FILE"] if options.json else [])]
    return {
        "schema": 1,
        "command": " ".join(["python", "-m", "benchmarks.gpu", *words]),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": os.environ.get("PAGEDKV_COMMIT") or git_commit(),
        "gpu": describe_gpu(),
        "machine": describe_machine(),
        "versions": {**describe_versions(), **describe_packages()},
        "benchmarks": [],
    }


if __name__ == "__main__":
    sys.exit(main())
