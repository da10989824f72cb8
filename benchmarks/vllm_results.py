"""vLLM 0.33's figures for the same work, read from a directory of its benchmark's JSON files.

Each file holds `results`, a list of `{"bench", "labels", "cpu_us": [...]}`, and `meta` with the calibration
loop that `clock.calibrate` repeats: a ratio means something only when both sides ran at the same speed.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.clock import calibrate
from benchmarks.report import Row, Target


@dataclass(frozen=True, slots=True)
class VllmFigure:
    """Thread CPU microseconds over all runs found, and the fastest calibration loop among them."""

    cpu_min: float
    cpu_median: float
    samples: int
    calibration_us: float


def read_figure(directory: Path, bench: str, labels: dict[str, Any]) -> VllmFigure | None:
    """All samples of `bench` with (at least) these labels in the directory's files; None when there are none."""
    cpu: list[float] = []
    calibration: list[float] = []
    for file in sorted(directory.glob("b*-*.json")):
        content = json.loads(file.read_text(encoding="utf-8"))
        matching = [r for r in content["results"] if r["bench"] == bench and labels.items() <= r["labels"].items()]
        for result in matching:
            cpu += result["cpu_us"]
            calibration += content["meta"]["calib_start"] + content["meta"]["calib_end"]
    if not cpu:
        return None
    return VllmFigure(min(cpu), median(cpu), len(cpu), min(calibration))


def beam_step(directory: Path, prompt_tokens: int, beams: int) -> VllmFigure | None:
    """Its whole bookkeeping of one beam step: every beam is submitted as a new request of one more token."""
    return read_figure(directory, "beam step via new requests", {"prompt": prompt_tokens, "beams": beams})


def decode_step(directory: Path, running: int) -> VllmFigure | None:
    """Its whole bookkeeping of one decode step: allocate, hand out new ids, append the tokens; no caching."""
    return read_figure(directory, "decode.total/step", {"caching": False, "running": running})


def full_hit(directory: Path, prompt_tokens: int, hash_name: str) -> tuple[VllmFigure, VllmFigure, VllmFigure] | None:
    """What a prompt whose blocks are all cached costs: its hashes, the look-up, the allocation."""
    parts = (
        read_figure(directory, "hash prompt", {"fn": hash_name, "tokens": prompt_tokens, "block": 16}),
        read_figure(directory, "prefill.get_computed_blocks hit", {"tokens": prompt_tokens}),
        read_figure(directory, "prefill.allocate_slots full hit", {"tokens": prompt_tokens}),
    )
    hashed, found, allocated = parts
    if hashed is None or found is None or allocated is None:
        return None
    return hashed, found, allocated


def times_faster(
    case: str, ours: Row, theirs: Sequence[VllmFigure], *, at_least: float | None, parts: str | None = None
) -> Row:
    """How many times the sum of vLLM's minima is ours. parts: words for several; the note gives both calibrations."""
    first = theirs[0]
    note = (
        f"vLLM {' + '.join(f'{part.cpu_min:.0f}' for part in theirs)} us "
        f"({parts or f'median {first.cpu_median:.0f}, {first.samples} steps'});"
        f" calibration {first.calibration_us:.0f} us theirs, {calibrate():.0f} us here"
    )
    target = None if at_least is None else Target(at_least, at_least=True)
    return Row(case, sum(part.cpu_min for part in theirs) / ours.value, "x", target, note=note)
