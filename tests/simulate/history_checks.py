"""A recorded history against the full log of its run: series, sums, block map, spans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pagedkv.simulate import SimulationResult
from pagedkv.simulate.history import Limits

from .history_log import FullLog, arrivals_of, doubled, series_of, spans_of

Log = list[dict[str, Any]]


def assert_right(
    result: SimulationResult,
    log: FullLog,
    limits: Limits,
    output: Sequence[int],
    *,
    steps: int | None = None,
    endless: bool = False,
) -> None:
    """steps: of the run, if it were not stopped. endless: nobody knew how many requests there would be."""
    history, figures = result.history, result.figures
    assert history is not None
    assert history["series"] == series_of(log.steps, figures, limits.buckets, timed=result.seconds is not None)
    assert_sums(history["series"], figures)
    assert_map(history["block_map"], log.steps, limits, len(log.steps) if steps is None else steps)
    stride = 1 if endless else -(-len(output) // limits.requests)
    assert_spans(history["sequences"], log, limits, output, stride)


def assert_sums(series: dict[str, Any], figures: dict[str, Any]) -> None:
    """Nothing is lost or counted twice. Without a step there is no bucket that could hold a rejection."""
    buckets, stride = len(series["first_step"]), series["steps_per_bucket"]
    sizes = [min(stride, figures["steps"] - stride * bucket) for bucket in range(buckets)]
    assert sum(sizes) == figures["steps"]
    for name, level in (("allocated_blocks", "allocated_blocks"), ("stored_tokens", "stored_tokens")):
        total = sum(round(mean * size) for mean, size in zip(series[level]["mean"], sizes, strict=True))
        assert total == figures[f"sum_{name}_over_steps"]
    for name in ("preemptions", "completed", "queried_tokens", "hit_tokens", "evictions"):
        assert sum(series[name]) == figures[name]
    assert sum(series["rejected"]) == (figures["rejected"] if buckets else 0)


def assert_map(found: dict[str, Any], log: Log, limits: Limits, steps: int) -> None:
    """A run that was stopped may have been sampled as for all of its steps, but no less often."""
    often = found["step_stride"]
    assert often in {doubled(len(log), limits.moments), doubled(steps, limits.moments)} or len(log) < steps
    assert doubled(len(log), limits.moments) <= often <= doubled(steps, limits.moments)
    moments = log[::often]
    assert found["steps"] == [step["step"] for step in moments]
    stride, rows = found["block_stride"], found["blocks"]
    assert stride in [2**power for power in range(8)]
    assert found["cells"] == [[step["cells"][block] for step in moments] for block in rows]
    for step in moments:
        assert rows == [*range(0, len(step["cells"]), stride)][: limits.blocks]
        assert set(step["cells"][stride * limits.blocks :]) <= {-1}  # what is not shown was never used
        if len(rows) == len(step["cells"]):
            column = [cells[found["steps"].index(step["step"])] for cells in found["cells"]]
            assert sum(cell >= 0 or cell == -4 for cell in column) == step["used_blocks"]


def assert_spans(found: dict[str, Any], log: FullLog, limits: Limits, output: Sequence[int], stride: int) -> None:
    spans, arrivals = spans_of(log.steps, log.done, len(output)), arrivals_of(log.steps)
    while (
        sum(span[0] % stride == 0 for span in spans) > limits.segments
        or sum(request % stride == 0 for request in arrivals) > limits.requests
    ):
        stride *= 2
    kept = [request for request in sorted(arrivals) if request % stride == 0]
    assert found["stride"] == stride
    assert found["of"] == len(output)
    assert found["request"] == kept
    assert found["arrival_step"] == [arrivals[request] for request in kept]
    assert found["output_tokens"] == [output[request] for request in kept]
    assert found["segments"] == [span for span in spans if span[0] % stride == 0]
    assert {span[0] for span in spans if span[3] == "completed"} == log.done
