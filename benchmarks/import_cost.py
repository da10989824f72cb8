"""What `import pagedkv`, all names used, costs beyond numpy: fresh interpreters in pairs; what must not be loaded."""

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from statistics import median

from benchmarks.report import Benchmark, Row, Settings, Target

TARGET_MS = 20.0
UNWANTED = ("typer", "click", "rich", "cuda", "torch")

# Timed inside the interpreter, so that neither its own start nor the launching process is in the figure.
PROGRAM = """
import json, sys, time
import numpy
wall, cpu = time.perf_counter_ns(), time.process_time_ns()
if sys.argv[1] == "both":
    import pagedkv
    for name in pagedkv.__all__:  # names are loaded when they are first used: use all of them
        getattr(pagedkv, name)
cpu, wall = time.process_time_ns() - cpu, time.perf_counter_ns() - wall
found = [name for name in sys.argv[2:] if name in sys.modules]
print(json.dumps({"wall_ms": wall / 1e6, "cpu_ms": cpu / 1e6, "loaded": found}))
"""


@dataclass(frozen=True, slots=True)
class Import:
    wall_ms: float
    cpu_ms: float
    loaded: list[str]


def run(settings: Settings) -> list[Row]:
    pairs = settings.pick(31, 1)
    in_interpreter("both")  # writes the bytecode caches
    wall, cpu = [], []
    loaded: set[str] = set()
    for _ in range(pairs):
        alone, both = in_interpreter("numpy"), in_interpreter("both")
        wall.append(both.wall_ms - alone.wall_ms)
        cpu.append(both.cpu_ms - alone.cpu_ms)
        loaded.update(both.loaded)
    note = f"median of {pairs} fresh pairs; CPU {median(cpu):.2f} ms; least {min(wall):.2f} ms"
    case = f"loaded of {', '.join(UNWANTED)}"
    return [
        Row("import pagedkv with all names beyond numpy, wall", median(wall), "ms", Target(TARGET_MS), note=note),
        Row(case, len(loaded), "packages", Target(0), note=" ".join(sorted(loaded))),
    ]


def in_interpreter(what: str) -> Import:
    with tempfile.TemporaryDirectory() as elsewhere:  # no checkout, so the installed package
        command = [sys.executable, "-c", PROGRAM, what, *UNWANTED]
        output = subprocess.run(command, cwd=elsewhere, capture_output=True, text=True, check=True).stdout
    return Import(**json.loads(output))


BENCHMARK = Benchmark("import-cost", "import pagedkv beyond numpy", run, in_process=False)
