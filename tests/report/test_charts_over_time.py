"""Charts over time: what is drawn, to the number."""

from __future__ import annotations

import pytest

from pagedkv.report.html.chart import Chart
from pagedkv.report.html.charts_series import series_charts
from pagedkv.report.html.timeline import Timeline

from .documents import block_map, sequences, series, simulation


def charts(**history: object) -> dict[str, Chart]:
    given = {"series": series(4), "block_map": block_map(3, 5), "sequences": sequences(3, 2)} | history
    return {chart.name: chart for chart in series_charts(simulation(history=given))}


def test_a_line_keeps_its_value_to_the_end_of_its_bucket() -> None:
    line = Timeline(series(3)).line("running", [5, 6, 7], "requests", "blue")
    assert (line["x"], line["y"]) == ([0, 2, 4, 6], [5, 6, 7, 7])
    assert line["line"]["shape"] == "hv"
    assert line["customdata"] == ["steps 0 to 1", "steps 2 to 3", "steps 4 to 5", "steps 4 to 5"]


def test_idle_steps_are_drawn_as_nothing_running_and_shares_are_left_out_there() -> None:
    timeline = Timeline(series(3, gap_after=0))
    line = timeline.line("running", [5, 6, 7], "requests", "blue")
    assert (line["x"], line["y"]) == ([0, 2, 12, 14, 16], [5, 0, 6, 7, 7])
    assert line["customdata"][1] == "idle"
    share = timeline.line("waste", [5, 6, 7], "%", "red", idle=None)
    assert (share["x"], share["y"]) == ([0, 2, 2, 12, 14, 16], [5, 5, None, 6, 7, 7])


def test_use_of_the_pool_has_minimum_mean_and_maximum_in_percent() -> None:
    chart = charts()["utilization"]
    low, high, mean = chart.traces[:3]
    assert low["y"] == [0, 1, 2, 3, 3]
    assert mean["y"] == [0.5, 1.5, 2.5, 3.5, 3.5]
    assert high["y"] == [1, 2, 3, 4, 4]
    assert high["fill"] == "tonexty"
    assert chart.traces[5]["y"] == [0.375, 1.125, 1.875, 2.625, 2.625]  # of 1,600 token places
    assert [key.traces for key in chart.keys] == [(0, 1, 2), (3, 4, 5)]
    assert "A point stands for 2 steps" in chart.caption
    titles = [column.title for column in chart.columns]
    assert titles[:5] == [
        "first step", "last step", "blocks in use, % of pool: mean", "blocks in use, % of pool: least",
        "blocks in use, % of pool: most",
    ]  # fmt: skip
    assert "% of pool" in chart.layout["yaxis"]["title"]["text"]
    assert "Blocks in use: 0.00 % to 4.00 % of 100 blocks" in chart.summary


def test_a_point_a_step_needs_no_band() -> None:
    chart = charts(series=series(4, per_bucket=1))["utilization"]
    assert len(chart.traces) == 2
    assert chart.caption == "Every step is drawn."


def test_waste_is_of_the_places_in_blocks_in_use_of_the_whole_bucket() -> None:
    empty = series(2)
    empty["allocated_blocks"]["mean"] = [0, 1.5]
    chart = charts(series=empty)["waste"]
    assert chart.columns[-1].values == [None, 25.0]  # 1.5 blocks of 16 places, 18 tokens in them
    assert "25.00 % to 25.00 %" in chart.summary


def test_only_events_that_happened_are_drawn() -> None:
    chart = charts()["requests"]
    assert [key.label for key in chart.keys] == ["completed", "preempted"]
    assert chart.summary == "In all: 4 completed, 2 preempted."
    none = series(4)
    none["evictions"] = [0] * 4
    assert "evictions" not in charts(series=none)


def test_hit_rates_a_bucket_and_since_the_start() -> None:
    chart = charts()["hits"]
    values = {column.title: column.values for column in chart.columns}
    assert values["hit rate, %"] == [None, 25.0, None, 25.0]
    assert values["hit rate since the start, %"] == [0.0, 25.0, 25.0, 25.0]
    unasked = series(4)
    unasked["queried_tokens"] = [0] * 4
    assert "hits" not in charts(series=unasked)


def test_modeled_seconds_are_in_the_table_and_say_so() -> None:
    timed = series(2)
    timed["seconds"] = [0.5, 1.25]
    columns = {column.title: column.values for column in charts(series=timed)["queue"].columns}
    assert columns["end, modeled seconds"] == [0.5, 1.25]


@pytest.mark.parametrize("history", [None, {"series": series(0), "block_map": block_map(0, 0)}])
def test_a_run_without_steps_or_record_has_no_charts(history: object) -> None:
    assert series_charts(simulation(history=history)) == ()
