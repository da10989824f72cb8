"""The figures of the README, written from the committed results: `python -m benchmarks.readme_figures`.

A figure in prose that nobody regenerates goes stale; a test compares the README with what this writes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "host-amd-epyc-2-cores.json"
START, END = "<!-- figures -->\n", "<!-- /figures -->"

# What is shown: (benchmark, case, words).
SHOWN = (
    (
        "decode-step",
        "256 running, arrays read",
        "decode step, 256 running: one append, slots and updates read",
    ),
    ("decode-step", "256 running, times faster than vLLM", "the same against vLLM 0.33's bookkeeping of that step"),
    ("decode-step", "4096 running, arrays read", "decode step, 4,096 running"),
    ("eviction-pressure", "evicting against clean", "decode step that evicts, against one that does not"),
    (
        "engine-step",
        "256 sequences, whole tables exported",
        "host step: append, commit, 2 frees, 2 admits, exports",
    ),
    (
        "free-scattered",
        "8,192 of 1,000,000 blocks, untouched since the pool was filled",
        "8,192 scattered blocks freed",
    ),
    ("pool-build", "1,000,000 blocks built", "a pool of 1,000,000 blocks, built"),
    ("pool-build", "1,000,000 blocks, memory after every block was used", "its memory, every block used"),
    ("get-stats", "1,000,000 blocks, 4,096 sequences", "statistics of such a pool"),
    ("import-cost", "import pagedkv beyond numpy, wall", "`import pagedkv` beyond NumPy"),
    ("simulate-trace", "whole trace, wall of the process", "`simulate` on an hour of Azure conversation: 79,283 steps"),
)


def figures(results: Path = RESULTS) -> str:
    """The Markdown between the markers."""
    report = json.loads(results.read_text(encoding="utf-8"))
    rows = {(b["name"], row["case"]): row for b in report["benchmarks"] for row in b["rows"]}
    lines = ["| work | measured | target |", "|---|---|---|"]
    lines += [_line(words, rows[name, case]) for name, case, words in SHOWN]
    machine, versions = report["machine"], report["versions"]
    lines += [
        "",
        f"Minima over many runs on {machine['cpu']}, {machine['cores']} cores, {machine['os']}, {versions['python']},",
        f"NumPy {versions['numpy']}; both sides with the same interpreter. `python -m benchmarks`, "
        f"{report['date'][:10]}, commit {report['commit']};",
        f"all rows: [{results.name}](benchmarks/results/{results.name}).",
    ]
    return "\n".join(lines) + "\n"


def updated(readme: str) -> str:
    """The README with its figures replaced."""
    head, rest = readme.split(START)
    return head + START + figures() + END + rest.split(END)[1]


def _line(words: str, row: dict[str, Any]) -> str:
    target = row["target"]
    relation = "at least" if target and target["at_least"] else "at most"
    bound = "" if target is None else f"{relation} {_quantity(target['limit'], row['unit'])}"
    return f"| {words} | {_quantity(row['value'], row['unit'])} | {bound} |"


def _quantity(value: float, unit: str) -> str:
    if unit == "us" and value >= 1000:
        value, unit = value / 1000, "ms"
    digits = 0 if value == int(value) or value >= 100 else 1 if value >= 10 else 2
    return f"{value:.{digits}f} {unit}"


def main() -> None:
    """Rewrite the README in place."""
    path = ROOT / "README.md"
    path.write_text(updated(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
