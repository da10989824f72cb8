"""The block map and the Gantt chart: what is drawn, to the number."""

from __future__ import annotations

from typing import Any

from pagedkv.report.html.chart import Chart
from pagedkv.report.html.charts_map import map_charts
from pagedkv.report.html.charts_sequences import sequence_charts

from .documents import block_map, sequences, series, simulation


def document(**history: Any) -> dict[str, Any]:
    given = {"series": series(4), "block_map": block_map(3, 5), "sequences": sequences(3, 2)} | history
    return simulation(history=given)


def the_map(cells: list[list[int]], *, block_stride: int = 1) -> Chart:
    drawn = block_map(len(cells), len(cells[0]), block_stride=block_stride) | {"cells": cells}
    (chart,) = map_charts(document(block_map=drawn))
    return chart


def test_the_map_tallies_states_a_moment() -> None:
    chart = the_map([[-1, 7], [-2, -4], [3, -4]])
    values = {column.title.partition(",")[0]: column.values for column in chart.columns}
    assert values == {
        "step": [0, 4], "owned": [1, 1], "free": [1, 0], "cached": [1, 0], "pending": [0, 0], "shared": [0, 2],
    }  # fmt: skip
    assert "at most 1 are owned by one request each, 2 are shared by several sequences, and 1 are free" in chart.summary
    assert [key.state for key in chart.keys] == ["free", "cached", "shared", "owner"]


def test_the_map_says_which_blocks_and_moments_are_drawn() -> None:
    assert the_map([[0]] * 100).summary.startswith("Every block (100); at one of 4 steps (1 moments).")
    assert the_map([[0]] * 50, block_stride=2).summary.startswith("One of 2 blocks (50); at one of 4 steps")
    few = the_map([[0]] * 10, block_stride=2).summary
    assert few.startswith("One of 2 blocks (10) up to number 19; the 80 above were never used; at one of 4 steps")


def test_a_column_of_the_map_does_not_reach_over_idle_steps() -> None:
    drawn = block_map(1, 3) | {"steps": [0, 4, 20]}
    (chart,) = map_charts(document(block_map=drawn))
    assert chart.traces[0]["x"] == [0, 4, 8, 20, 24]
    assert chart.extra["gaps"] == [1]
    assert chart.extra["steps"] == [0, 4, 20]
    (busy,) = map_charts(document(block_map=block_map(1, 3)))
    assert (busy.traces[0]["x"], busy.extra["gaps"]) == ([0, 4, 8, 12], [])


def test_waits_and_spans_are_lines_from_step_to_step() -> None:
    (chart,) = sequence_charts(document(sequences=sequences(1, 2)))
    names = [trace["name"] for trace in chart.traces]
    assert names == ["waiting", "runs, then completes", "runs, then is preempted"]
    waiting, completed, preempted = chart.traces
    assert waiting["spans"] == [[0, 0, 0], [0, 3, 3]]
    assert preempted["spans"] == [[0, 1, 2]]
    assert completed["spans"] == [[0, 4, 5]]
    assert chart.extra == {"requests": [0]}
    assert [trace["stroke"] for trace in chart.traces] == [0, 0, 0.4]
    assert [key.traces for key in chart.keys] == [(0,), (1,), (2,)]


def test_a_request_that_runs_at_once_does_not_wait() -> None:
    drawn = sequences(1, 1) | {"arrival_step": [1]}
    (chart,) = sequence_charts(document(sequences=drawn))
    assert [trace["name"] for trace in chart.traces] == ["runs, then completes"]


def test_rows_are_requests_by_number_and_the_table_has_every_span() -> None:
    (chart,) = sequence_charts(document(sequences=sequences(30, 2)))
    assert chart.layout["yaxis"]["ticktext"][:3] == ["0", "9", "18"]
    assert chart.layout["yaxis"]["tickvals"][:3] == [0, 3, 6]
    values = {column.title: column.values for column in chart.columns}
    assert values["request"][:4] == [0, 0, 3, 3]
    assert values["prompt, tokens"][:4] == [10, 10, 11, 11]
    assert values["then"][:2] == ["preempted", "completed"]
    assert chart.summary == ("One of 3 requests (30 of 90), in 60 running spans, 30 of them ended by a preemption.")


def test_without_requests_there_is_no_chart() -> None:
    assert sequence_charts(document(sequences=sequences(0, 1))) == ()
    assert sequence_charts(simulation(history=None)) == ()
    assert map_charts(simulation(history=None)) == ()
