"""Bars: systems, the paper, memory, plans, modeled times."""

from __future__ import annotations

from pagedkv.report.html.chart import label
from pagedkv.report.html.charts_paper import paper_charts
from pagedkv.report.html.charts_systems import contiguous_charts, systems_charts
from pagedkv.report.html.charts_time import time_charts

from .documents import reproduction, simulation, system


def test_a_label_is_neither_tags_nor_a_formula() -> None:
    assert label("<b>a</b> & b,\n$x$") == "&lt;b&gt;a&lt;/b&gt; &amp; b, &#36;x&#36;"


def test_systems_are_stacked_to_the_whole_pool() -> None:
    (chart,) = systems_charts(
        simulation(systems=[system(None, 0.97), system("max", 0.25), system("pow2", 0.1, steps=0)])
    )
    assert chart.traces[0]["y"] == ["paged", "max, first fit"]  # one without a step has no shares
    assert chart.traces[0]["x"] == [97.0, 25.0]
    assert [round(sum(trace["x"][place] for trace in chart.traces), 6) for place in (0, 1)] == [100, 100]
    assert chart.traces[1]["text"] == ["", "25.0 %"]  # 1 % is too narrow for its number
    assert "The most: paged." in chart.summary
    assert systems_charts(simulation()) == ()


def test_means_are_over_all_steps_where_one_system_had_no_queue() -> None:
    idle = system("max", 0.25)
    idle["figures"]["saturated"] = None
    (chart,) = systems_charts(simulation(systems=[system(None, 0.97), idle]))
    assert "a mean over all steps" in chart.caption


def test_memory_at_the_peak() -> None:
    (chart,) = contiguous_charts(simulation())
    assert chart.traces[0]["x"] == [1.0, 3.0]
    assert "Saved: 25.00 %, 3.00 times less." in chart.summary
    assert contiguous_charts({"figures": {"blocks": 1}}) == ()
    assert contiguous_charts({"figures": simulation()["figures"] | {"contiguous_max_bytes": 0}}) == ()


def test_ours_and_printed_with_the_difference() -> None:
    (chart,) = paper_charts(reproduction())
    ours, printed = chart.traces
    assert ours["x"] == [96.4, 56.0]
    assert ours["y"] == ["paged: token states", "max, buddy: internal"]  # what is not printed is not compared
    assert ours["customdata"] == [" (+0.10 points)", " (-1.30 points)"]
    assert printed["x"] == [96.3, None, 57.3, 60.0, None]  # a value, and a range
    assert printed["y"] == ["paged: token states"] * 2 + ["max, buddy: internal"] * 3
    values = {column.title: column.values for column in chart.columns}
    assert (values["printed, %"], values["printed up to, %"]) == ([96.3, 57.3], [96.3, 60.0])
    assert "2 values; the largest difference is 1.30 points" in chart.summary
    assert "allowed, in percentage points: 1.5." in chart.caption
    assert paper_charts(reproduction(bars=[])) == ()


def test_a_name_is_no_markup() -> None:
    hostile = system("<b>max</b>", 0.5)
    (chart,) = systems_charts(simulation(systems=[hostile]))
    assert chart.traces[0]["y"] == ["&lt;b&gt;max&lt;/b&gt;, first fit"]
    assert chart.columns[0].values == ["<b>max</b>, first fit"]


def test_modeled_times_say_so_everywhere() -> None:
    spread = {"mean": 0.5, "p50": 0.25, "p90": 1.0, "p99": 1.5}
    figures = {"time_to_first_token_seconds": spread | {"p50": 0.0}, "request_seconds": spread}
    document = simulation(time={"model": {}, "figures": figures | {"time_per_output_token_seconds": None}})
    (chart,) = time_charts(document)
    assert chart.traces[0]["x"] == [None, 0.25]
    assert chart.traces[2]["x"] == [1.5, 1.5]
    assert chart.traces[2]["y"] == ["first token", "whole request"]
    assert chart.columns[1].values == [0.0, 0.25]
    assert "first token 0.00 ms, 1.50 s; whole request 250.00 ms, 1.50 s" in chart.summary
    titles = (chart.title, chart.summary, chart.layout["xaxis"]["title"]["text"], chart.columns[0].title)
    for said in (*titles, *(trace["hovertemplate"] for trace in chart.traces)):
        assert "odeled" in said
    assert "no GPU was timed" in chart.caption


def test_without_a_model_or_a_completed_request_there_are_no_modeled_times() -> None:
    nothing = dict.fromkeys(("time_to_first_token_seconds", "time_per_output_token_seconds", "request_seconds"))
    for time in (None, {"model": {}, "figures": None}, {"model": {}, "figures": nothing}):
        assert time_charts(simulation(time=time)) == ()
