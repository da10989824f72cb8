"""Step-time models: right seconds by hand, the clock against a plain log, coefficients from measured steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedkv.errors import InvalidArgumentError
from pagedkv.layout import OpaqueLayout
from pagedkv.simulate import Groups, Load, PoolSpec, Simulation
from pagedkv.simulate.batching import Batching
from pagedkv.simulate.observer import Observer
from pagedkv.simulate.reservation import ContiguousSystem, SideBySide
from pagedkv.simulate.scheduler import Scheduler
from pagedkv.simulate.step_time import LinearTime, Roofline, StepTime, StepWork, fit_steps

from .runs import simulate, workload

SECOND = 10_000_000  # ticks
ONE = LinearTime(1.0, 0.0, 0.0, 0.0)  # a second a step, whatever it does


def work(sequences: int, context: int, *prefills: tuple[int, int]) -> StepWork:
    made = StepWork()
    made.begin(sequences, context)
    for start, stop in prefills:
        made.prefill(start, stop)
    return made


def test_work_counts_tokens_pairs_and_context() -> None:
    made = work(3, 100, (0, 4), (10, 12))
    assert (made.prefill_tokens, made.prefill_pairs, made.prefill_context) == (6, 1 + 2 + 3 + 4 + 11 + 12, 16)
    assert made.context == 116


def test_linear_seconds() -> None:
    model = LinearTime(0.01, 0.001, 0.0005, 0.00001)
    assert model.seconds(work(4, 1000, (0, 20))) == pytest.approx(0.01 + 0.02 + 0.002 + 0.0102)
    assert model.described()["context_token_seconds"] == 0.00001


def test_roofline_is_the_larger_of_arithmetic_and_memory_twice() -> None:
    model = Roofline(
        weight_bytes=1000, token_operations=2000, pair_operations=10, kv_token_bytes=4, peak=1e6, bandwidth=1e5
    )
    # One sequence: weights 10 ms against 2 ms of arithmetic; keys and values (50 + 1) x 4 B: 2.04 ms against 0.5 ms.
    assert model.seconds(work(1, 50)) == pytest.approx(0.01 + 0.00204)
    # A prompt of 100: arithmetic 200 ms; 5,050 pairs 50.5 ms against (100 + 100) x 4 B, 8 ms.
    assert model.seconds(work(0, 0, (0, 100))) == pytest.approx(0.2 + 0.0505)


def test_prompts_do_not_pass_the_output_layer() -> None:
    model = Roofline(1, token_operations=100, pair_operations=0, kv_token_bytes=0, peak=1, bandwidth=1e9)
    assert model.seconds(work(2, 50, (0, 10))) == 1200
    output = replace(model, output_operations=7)
    assert output.seconds(work(2, 50, (0, 10))) == 1214
    assert output.seconds(work(0, 0, (0, 10))) == 1000


def test_more_tokens_touch_more_experts_and_never_more_than_all() -> None:
    model = Roofline(1000, 1, 0, 0, peak=1e12, bandwidth=1e3, expert_bytes=8000, expert_share=0.25)
    assert model.seconds(work(1, 0)) == pytest.approx(1 + 2)
    assert model.seconds(work(2, 0)) == pytest.approx(1 + 8 * (1 - 0.75**2))
    assert model.seconds(work(1000, 0)) == pytest.approx(9)


@pytest.mark.parametrize(
    "make",
    [
        lambda: LinearTime(-1.0, 0, 0, 0),
        lambda: LinearTime(float("nan"), 0, 0, 0),
        lambda: LinearTime(0.0, 0.1, 0.0, 0.1),
        lambda: Roofline(0, 1, 1, 1, 1, 1),
        lambda: Roofline(1, 1, 1, 1, 1, float("inf")),
        lambda: Roofline(1, 1, 1, 1, 1, 1, 1, 1.5),
        lambda: Load(workload([(0, 1, 1)]), timed=True),
        lambda: Load(workload([(0, 1, 1)]), timed=True, step_ticks=1, step_time=ONE),
    ],
)
def test_numbers_that_make_no_sense_are_refused(make: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        make()


def run(requests: list[tuple[int, int, int]], blocks: int, step_time: StepTime, **options: Any) -> dict[str, Any]:
    load = Load(workload(requests), step_time=step_time, **options)
    result, _ = simulate(blocks, 4, load)
    assert result.seconds is not None
    return result.seconds


def test_times_of_two_requests_by_hand() -> None:
    # Request 0 comes at 0 s and runs in the steps that end at 1, 2 and 3 s; request 1 comes at 1.5 s, is seen by the
    # step that begins at 2 s, and ends at 4 s with its only two tokens.
    seconds = run([(0, 5, 3), (SECOND * 3 // 2, 5, 2)], 16, ONE, timed=True)
    assert seconds["total_seconds"] == seconds["busy_seconds"] == 4
    assert seconds["requests_per_second"] == 0.5
    assert seconds["output_tokens_per_second"] == 5 / 4
    first = seconds["time_to_first_token_seconds"]
    assert (first["count"], first["mean"], first["max"], first["p50"]) == (2, 1.25, 1.5, 1.25)
    assert seconds["time_per_output_token_seconds"]["mean"] == 1
    assert seconds["request_seconds"]["max"] == 3


def test_nobody_there_is_time_too() -> None:
    seconds = run([(0, 4, 1), (10 * SECOND, 4, 1)], 16, ONE, timed=True)
    assert (seconds["total_seconds"], seconds["busy_seconds"], seconds["mean_step_seconds"]) == (11, 2, 1)
    assert seconds["time_to_first_token_seconds"]["max"] == 1
    assert seconds["time_per_output_token_seconds"] is None  # nobody has a second token


def test_a_preempted_request_had_its_first_token_once() -> None:
    seconds = run([(0, 7, 6), (0, 7, 6)], 4, ONE)
    # Both are admitted at once and have a token each at 1 s; the second loses its place, and ends last.
    assert seconds["time_to_first_token_seconds"]["max"] == 1
    assert seconds["request_seconds"]["max"] == seconds["total_seconds"] > 6


def test_a_prompt_in_pieces_has_its_first_token_when_it_is_whole() -> None:
    seconds = run([(0, 10, 2)], 16, ONE, batching=Batching(4, chunked_prefill=True))
    assert seconds["time_to_first_token_seconds"]["max"] == 3
    assert seconds["request_seconds"]["max"] == 4


def test_samples_share_their_prompt_in_time_too() -> None:
    model = LinearTime(0.0, 1.0, 0.001, 0.0)
    alone = run([(0, 8, 2)], 64, model)
    group = run([(0, 8, 2)], 64, model, groups=Groups(samples=4))
    assert group["time_to_first_token_seconds"] == alone["time_to_first_token_seconds"]
    assert group["total_seconds"] == pytest.approx(8 + 0.004)
    assert group["output_tokens_per_second"] == pytest.approx(8 / 8.004)


def test_the_closed_loop_waits_for_its_requests() -> None:
    load = Load(None, concurrency=2, completions=6, step_time=ONE)
    result, _ = simulate(512, 16, load)
    assert result.seconds is not None
    assert result.seconds["time_to_first_token_seconds"]["max"] == 1


@given(
    requests=st.lists(
        st.tuples(st.integers(0, 40), st.integers(1, 12), st.integers(1, 12)), min_size=1, max_size=10
    ).map(sorted),
    blocks=st.integers(3, 12),
)
def test_times_equal_those_of_the_step_log(requests: list[tuple[int, int, int]], blocks: int) -> None:
    """Against the scheduler's own words: when each step ended, who ran in it, and who waited."""
    requests = [(arrival * SECOND // 2, prompt, output) for arrival, prompt, output in requests]
    arrivals = [(ticks - requests[0][0]) / SECOND for ticks, _, _ in requests]
    simulation = Simulation(
        PoolSpec(OpaqueLayout(24, 4), blocks), Load(workload(requests), step_time=ONE, timed=True), device="null"
    )
    log = EndLog()
    simulation.scheduler.observers.append(log)
    result = simulation.run()
    assert result.seconds is not None
    before, there = 0.0, set[int]()
    first: dict[int, float] = {}
    last: dict[int, float] = {}
    for end, running, present in log.steps:
        begin = end - 1
        assert begin == before or not there, "the clock jumps only where nobody is left"
        assert all(arrivals[request] <= begin for request in present)
        assert all(arrivals[request] > before - 1 for request in present - there), "nobody is seen a step too late"
        for request in running:
            first.setdefault(request, end)
            last[request] = end
        before, there = end, {request for request in present if request not in running or not log.ends(request, end)}
    assert result.seconds["total_seconds"] == before
    assert len(last) + len(result.rejections) == len(requests)
    if not last:
        return
    waits = [first[request] - arrivals[request] for request in last]
    whole = [last[request] - arrivals[request] for request in last]
    assert result.seconds["time_to_first_token_seconds"]["mean"] == pytest.approx(np.mean(waits))
    assert result.seconds["time_to_first_token_seconds"]["p90"] == pytest.approx(np.percentile(waits, 90))
    assert result.seconds["request_seconds"]["mean"] == pytest.approx(np.mean(whole))


class EndLog(Observer):
    """The end of every step by the modeled clock, who ran in it, and who ran or waited."""

    def __init__(self) -> None:
        self.steps: list[tuple[float, list[int], set[int]]] = []
        self._ends: dict[int, float] = {}

    def measured(self, scheduler: Scheduler) -> None:
        assert scheduler.clock is not None
        running = scheduler.running.ids.tolist()
        self.steps.append((scheduler.clock.now, running, {*running, *scheduler.waiting}))

    def ending(self, seq_ids: Sequence[int]) -> None:
        for request in seq_ids:
            self._ends[request] = self.steps[-1][0]

    def ends(self, request: int, end: float) -> bool:
        """Whether the request has its last token in the step that ends then."""
        return self._ends.get(request) == end


def test_contiguous_systems_have_times_of_the_same_model() -> None:
    load = Load(workload([(0, 5, 3), (0, 5, 2)]), step_time=LinearTime(1.0, 0.1, 0.01, 0.001))
    (system,) = SideBySide(PoolSpec(OpaqueLayout(24, 4), 16), load, 8, [ContiguousSystem("oracle", "counting")]).run()
    result, _ = simulate(16, 4, load)
    assert system.figures["seconds"] == result.seconds  # nobody waits in either


HEADER = "prefill_tokens,decode_sequences,context_tokens,seconds"


def measured(file: Path, rows: list[tuple[float, ...]], header: str = HEADER) -> Path:
    file.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n", encoding="utf-8")
    return file


def test_a_fit_finds_the_coefficients_that_made_the_steps(tmp_path: Path) -> None:
    generator = np.random.default_rng(3)
    right = LinearTime(0.004, 2e-5, 1e-6, 3e-8)
    rows = []
    for _ in range(50):
        counts = [int(generator.integers(0, top)) for top in (4000, 256, 500_000)]
        step = StepWork(decode_sequences=counts[1], decode_context=counts[2], prefill_tokens=counts[0])
        rows.append((*counts, right.seconds(step)))
    fitted = fit_steps(measured(tmp_path / "steps.csv", rows))
    for name in ("step", "prefill_token", "decode_sequence", "context_token"):
        assert getattr(fitted.linear, name) == pytest.approx(getattr(right, name), rel=1e-6)
    assert fitted.largest_error < 1e-6
    within = StepWork(decode_sequences=1)
    fitted.seconds(within)
    assert fitted.described()["steps_beyond_measured"] == 0
    fitted.seconds(StepWork(decode_sequences=1000))
    assert fitted.described()["steps_beyond_measured"] == 1


def test_a_fit_has_no_negative_coefficient(tmp_path: Path) -> None:
    # The more sequences, the shorter: plain least squares would say that a sequence takes less than nothing.
    rows = [(0, count, 1000 * count, 0.02 - 0.00001 * count) for count in range(1, 60)]
    fitted = fit_steps(measured(tmp_path / "steps.csv", rows))
    assert min(fitted.described()[f"{name}_seconds"] for name in ("step", "prefill_token", "decode_sequence")) >= 0
    assert fitted.linear.context_token == 0
    assert fitted.mean_error > 0


@pytest.mark.parametrize(
    ("rows", "header", "said"),
    [
        ([(1, 1, 1, 1)] * 3, HEADER, "3 measured steps"),
        ([(1, 1, 1)] * 4, "prefill_tokens,decode_sequences,seconds", "no column context_tokens"),
        ([(1, 1, 1, 0)] * 4, HEADER, "line 2, column seconds"),
        ([(1, -1, 1, 1)] * 4, HEADER, "column decode_sequences"),
        ([(1, "nan", 1, 1)] * 4, HEADER, "'nan'"),
        ([(1e300, 1, 1, 1)] * 4, HEADER, "column prefill_tokens: '1e\\+300'"),
        ([(1, 1, 1, 1e-300)] * 4, HEADER, "column seconds"),
        ([(1, 1, 1)] * 4, HEADER, "column seconds: ''"),
    ],
)
def test_measured_steps_that_make_no_sense_are_refused(
    tmp_path: Path, rows: list[tuple[float, ...]], header: str, said: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=said):
        fit_steps(measured(tmp_path / "steps.csv", rows, header))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"none\.csv cannot be read"):
        fit_steps(tmp_path / "none.csv")
