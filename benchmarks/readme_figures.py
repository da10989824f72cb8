"""The figures of the README, written from the committed results: `python -m benchmarks.readme_figures`.

A figure in prose that nobody regenerates goes stale; a test compares the README with what this writes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "host-amd-epyc-2-cores.json"
GPU_RESULTS = ROOT / "benchmarks" / "results" / "gpu-h200.json"
# What a step costs the host differs from host to host by a factor of two: a run of its own, beside that of the others.
ATTENTION_RESULTS = ROOT / "benchmarks" / "results" / "gpu-h200-attention.json"
GPU_HOST_RESULTS = ROOT / "benchmarks" / "results" / "gpu-h200-host-time.json"
START, END = "<!-- figures -->\n", "<!-- /figures -->"

# What is shown: (benchmark, case, words).
SHOWN = (
    (
        "decode-step",
        "256 running, arrays read",
        "decode step, 256 running: one append, slots and updates read",
    ),
    ("decode-step", "256 running, times faster than vLLM", "the same against vLLM 0.33's bookkeeping of that step"),
    (
        "engine-step",
        "256 sequences, whole tables exported",
        "host step: append, commit, 2 frees, 2 admits, exports",
    ),
    ("beam-step", "step of 8 beams, prompt 32,768", "beam step (reorder + append), 8 beams, 32k prompt; 512k alike"),
    ("beam-step", "step of 8 beams, prompt 32,768, times faster than vLLM", "the same against vLLM's resubmission"),
    (
        "prefix-reuse",
        "full hit of 32,768 tokens, 1,000,000 cached blocks",
        "full hit of a 32k prompt, 1M blocks cached",
    ),
    (
        "prefix-reuse",
        "full hit of 32,768 tokens, times faster than vLLM with sha256",
        "the same against vLLM's hash + lookup + allocate, sha256",
    ),
    (
        "prefix-memory",
        "1,000,000 cached blocks, runs of 8: all memory, tokens included",
        "memory of a cached block of 16 tokens, all in all",
    ),
    (
        "free-scattered",
        "8,192 of 1,000,000 blocks, untouched since the pool was filled",
        "8,192 scattered blocks freed",
    ),
    ("pool-build", "1,000,000 blocks built", "a pool of 1,000,000 blocks, built"),
    ("simulate-trace", "whole trace, wall of the process", "`simulate` on an hour of Azure conversation: 79,283 steps"),
    ("planner", "a drawn load of 1,000,000 requests, wall of the process", "`simulate` of a million drawn requests"),
    ("planner", "Figure 2, four systems, wall of the process", "`reproduce sosp23-figure2`: 423,325 steps"),
    ("report-opening", "largest report, wall until every chart is drawn", "the largest report, opened in Chromium"),
)


GPU_HOST_SHOWN = (
    ("host-time", "apply, 256 sequences decode", "`apply` of a 256-sequence step, host time"),
    ("host-time", "whole step with apply, 256 sequences", "whole host step with `apply`"),
)
GPU_SHOWN = (
    ("copy-rate", "8 KiB blocks over 12 GiB, of a device copy", "scattered copies, 8 KiB, of a device copy"),
    ("copy-rate", "2048 KiB blocks over 12 GiB, of a device copy", "the same, 2 MiB"),
    (
        "kv-rate",
        "write_kv, 65536 tokens, of a device copy",
        "`write_kv`, 65,536 tokens, scattered blocks, of a device copy",
    ),
    ("kv-rate", "gather_kv, 65536 tokens, of a device copy", "`gather_kv`, the same"),
    (
        "kv-rate",
        "write_kv, 4096 tokens, of FlashInfer's append",
        "`write_kv`, 4,096 tokens, time of FlashInfer 0.6.1's append",
    ),
)
ATTENTION_SHOWN = tuple(
    ("decode-attention", case, words)
    for case, words in (
        (
            "B=64 L=4096, 32/8 heads, of the read ceiling",
            "decode attention, 64 x 4,096 tokens, 32/8 heads, of reading alone",
        ),
        ("B=64 L=4096, 64/8 heads, of the read ceiling", "the same, 64/8 heads"),
        ("B=64 L=4096, 32/32 heads, of the read ceiling", "the same, 32/32 heads"),
        ("B=1 L=131072, 32/8 heads, of the read ceiling", "the same, 1 x 131,072 tokens, 32/8 heads"),
        (
            "B=64 L=4096, 32/8 heads, of the best peer's time",
            "64 x 4,096, 32/8: time of the fastest of FlashInfer and FlashAttention",
        ),
        ("B=64 L=4096, 32/32 heads, of the best peer's time", "64 x 4,096, 32/32: the same"),
        ("4 query tokens, B=64 L=4096, 32/8, of the best peer's time", "4 query tokens, 32/8: the same"),
        ("B=256 L=40, 32/8 heads, of the best peer's time", "256 x 40, 32/8: the same"),
    )
)


def figures() -> str:
    """The Markdown between the markers."""
    report, lines = _table(RESULTS, SHOWN)
    machine, versions = report["machine"], report["versions"]
    lines += [
        "",
        f"Minima over many runs on {machine['cpu']}, {machine['cores']} cores, {machine['os']}, {versions['python']},",
        f"NumPy {versions['numpy']}; both sides with the same interpreter. `python -m benchmarks`, "
        f"{report['date'][:10]}, commit {report['commit']};",
        f"all rows: [{RESULTS.name}](benchmarks/results/{RESULTS.name}).",
        "",
    ]
    on_gpu, more = _table(GPU_RESULTS, GPU_SHOWN)
    on_host, first = _table(GPU_HOST_RESULTS, GPU_HOST_SHOWN)
    attention, last = _table(ATTENTION_RESULTS, ATTENTION_SHOWN)
    slower = {row["case"]: row["value"] for b in on_gpu["benchmarks"] if b["name"] == "host-time" for row in b["rows"]}
    slow = " and ".join(f"{slower[case]:.0f}" for _, case, _ in GPU_HOST_SHOWN)
    gpu = on_gpu["gpu"]
    lines += [
        *first,
        *more[2:],
        *last[2:],
        "",
        f"Medians on {gpu['name']}, driver {gpu['settings']['driver_version']}, {on_gpu['versions']['python']}; "
        f"`python -m benchmarks.gpu`, {on_gpu['date'][:10]},",
        f"commit {on_gpu['commit']}; all rows: [{GPU_RESULTS.name}](benchmarks/results/{GPU_RESULTS.name}). "
        f"Host times: commit {on_host['commit']},",
        f"[{GPU_HOST_RESULTS.name}](benchmarks/results/{GPU_HOST_RESULTS.name}); a slower host: {slow} us. "
        f"Attention: commit {attention['commit']},",
        f"[{ATTENTION_RESULTS.name}](benchmarks/results/{ATTENTION_RESULTS.name}); what limits it: "
        "[attention.md](benchmarks/notes/attention.md).",
    ]
    return "\n".join(lines) + "\n"


def updated(readme: str) -> str:
    """The README with its figures replaced."""
    head, rest = readme.split(START)
    return head + START + figures() + END + rest.split(END)[1]


def _table(results: Path, shown: tuple[tuple[str, str, str], ...]) -> tuple[dict[str, Any], list[str]]:
    report = json.loads(results.read_text(encoding="utf-8"))
    rows = {(b["name"], row["case"]): row for b in report["benchmarks"] for row in b["rows"]}
    head = ["| work | measured | target |", "|---|---|---|"]
    return report, head + [_line(words, rows[name, case]) for name, case, words in shown]


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
