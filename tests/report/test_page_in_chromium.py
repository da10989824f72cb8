"""The page in a real browser: drawn, silent, offline, worked by mouse and keyboard, in light, in dark and on paper."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pagedkv.report.comparison import compare_documents
from pagedkv.report.html.compare_page import compare_page
from pagedkv.report.html.page import page_of
from pagedkv.report.html.render import render

from .browser import Opened, chromium, opened
from .documents import HOSTILE, reproduction, series, simulation, system

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytest.importorskip("jinja2", reason="jinja2 is not installed; the extra `report` brings it")
pytest.importorskip("plotly", reason="plotly is not installed; the extra `report` brings it")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


def written(folder: Path, document: dict[str, Any]) -> Path:
    file = folder / "report.html"
    file.write_bytes(render(page_of(document)))
    return file


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    systems = [system(None, 0.9), system("max", 0.3)]
    return written(tmp_path_factory.mktemp("report"), simulation(systems=systems))


@pytest.fixture
def shown(browser: Browser, report: Path) -> Iterator[Opened]:
    """The report, opened, which must have said nothing and asked for nothing by the end of a test."""
    with opened(browser, report) as one:
        yield one
        assert one.console == []
        assert [url for url in one.requests if not url.startswith(("data:", "blob:"))] == [report.as_uri()]


def test_every_chart_is_drawn(shown: Opened) -> None:
    marks = shown.evaluate(
        "Object.fromEntries([...document.querySelectorAll('.plot')].map(plot => [plot.dataset.chart,"
        " plot.querySelectorAll('.scatterlayer path, .barlayer path, .heatmaplayer image, .shapelayer path').length]))"
    )
    assert list(marks) == [
        "utilization", "waste", "queue", "requests", "hits", "evictions", "block-map", "sequences", "systems",
        "contiguous",
    ]  # fmt: skip
    assert all(marks.values()), marks
    assert marks["systems"] == 8
    assert marks["block-map"] == 1
    assert shown.page.locator("#sequences .shapelayer path").count() == 4  # three kinds of spans, and the preemptions


def lines_of(shown: Opened, chart: str) -> int:
    found: int = shown.evaluate(f"document.querySelectorAll('#{chart} .scatterlayer .trace').length")
    return found


def test_a_click_on_the_legend_hides_a_trace_and_the_next_shows_it(shown: Opened) -> None:
    before = lines_of(shown, "queue")
    entry = shown.page.locator("#queue .legend button").first
    entry.click()
    assert entry.get_attribute("aria-pressed") == "false"
    assert lines_of(shown, "queue") == before - 3  # the line, and both edges of its band
    entry.click()
    assert entry.get_attribute("aria-pressed") == "true"
    assert lines_of(shown, "queue") == before


def test_the_keyboard_reaches_the_legend_and_works_it(shown: Opened) -> None:
    before = lines_of(shown, "utilization")
    shown.page.keyboard.press("Tab")
    assert shown.evaluate("document.activeElement.className") == "skip"
    for _ in range(40):
        shown.page.keyboard.press("Tab")
        if shown.evaluate("document.activeElement.matches('#utilization .legend button')"):
            break
    shown.page.keyboard.press("Space")
    assert lines_of(shown, "utilization") == before - 3


def test_a_state_of_the_block_map_can_be_hidden(shown: Opened) -> None:
    picture = "document.querySelector('#block-map .heatmaplayer image').getAttribute('href')"
    before = shown.evaluate(picture)
    shown.page.locator("#block-map .legend button", has_text="owned").click()
    assert shown.evaluate(picture) != before


def test_spans_are_hidden_with_their_strokes_and_tell_what_they_are(shown: Opened) -> None:
    shown.evaluate("Plotly.Fx.hover(document.querySelector('#sequences .plot'), [{curveNumber: 2, pointNumber: 1}])")
    text = " ".join(shown.page.locator("#sequences .hoverlayer text tspan").all_text_contents())
    assert text == "request 0 steps 1 to 2 runs, then is preempted"
    shown.page.locator("#sequences .legend button", has_text="preempted").click()
    assert shown.page.locator("#sequences .shapelayer path").count() == 2


def test_a_cell_of_the_block_map_says_whose_it_is(shown: Opened) -> None:
    plot = shown.page.locator("#block-map .nsewdrag")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    assert box is not None
    plot.hover(position={"x": box["width"] * 0.3, "y": 5})  # the second of five columns, the first of three rows
    tooltip = shown.page.locator("#block-map .hoverlayer text").first
    tooltip.wait_for()
    assert tooltip.text_content() == "block 0, step 4: free"


def test_arrow_keys_walk_along_a_chart_and_say_what_is_there(shown: Opened) -> None:
    shown.page.locator("#utilization .plot").focus()
    shown.page.keyboard.press("ArrowRight")
    shown.page.keyboard.press("ArrowRight")
    said = shown.page.locator("#spoken").text_content() or ""
    assert said.startswith("first step: 2; last step: 3; blocks in use, % of pool: mean: 1.5;")
    assert shown.page.locator("#utilization .hoverlayer .legend text").count() > 0


def test_arrow_keys_walk_to_the_end_of_the_longer_of_two_runs(browser: Browser, tmp_path: Path) -> None:
    short, long = simulation(), simulation()
    long["history"]["series"] = series(40, per_bucket=1)
    files = ("a.json", "price $1 to $2.json")
    file = tmp_path / "both.html"
    file.write_bytes(render(compare_page(compare_documents((short, long), files), (short, long))))
    with opened(browser, file) as shown:
        shown.page.locator("#utilization .plot").focus()
        shown.page.keyboard.press("End")
        said = shown.page.locator("#spoken").text_content() or ""
        assert "A: first step: \N{EN DASH}" in said
        assert "B: first step: 39" in said
        assert shown.page.locator("#utilization .hoverlayer .legend text").count() > 0
        assert shown.console == []


def test_a_tooltip_has_value_and_unit(shown: Opened) -> None:
    plot = shown.page.locator("#utilization .nsewdrag")
    plot.scroll_into_view_if_needed()
    plot.hover()
    shown.page.wait_for_selector("#utilization .hoverlayer .legend text")
    text = " ".join(shown.page.locator("#utilization .hoverlayer text").all_text_contents())
    assert "% of pool" in text


def test_the_table_below_a_chart_has_its_data(shown: Opened) -> None:
    shown.page.locator("#sequences summary").click()
    table = shown.page.locator("#sequences table")
    table.wait_for()
    assert table.locator("thead th").all_text_contents()[:2] == ["request", "arrives at step"]
    assert table.locator("tbody tr").count() == 6
    assert table.locator("tbody tr").nth(1).locator("th, td").all_text_contents() == [
        "0",
        "0",
        "10",
        "5",
        "4",
        "5",
        "completed",
    ]


def background(shown: Opened) -> tuple[int, ...]:
    """The color of a pixel at the corner, from a picture of the page."""
    code = (
        "async (shot) => { const image = new Image(); image.src = 'data:image/png;base64,' + shot;"
        " await image.decode(); const canvas = document.createElement('canvas');"
        " const context = canvas.getContext('2d');"
        " context.drawImage(image, 0, 0); return [...context.getImageData(2, 2, 1, 1).data]; }"
    )
    shot = b64encode(shown.page.screenshot()).decode("ascii")
    return tuple(shown.page.evaluate(code, shot))


def ink(shown: Opened) -> str:
    color: str = shown.evaluate("getComputedStyle(document.querySelector('#queue .xtick text')).fill")
    return color


def test_light_and_dark_differ_and_switch_while_open(shown: Opened) -> None:
    light, light_ink = background(shown), ink(shown)
    shown.page.emulate_media(color_scheme="dark")
    shown.page.wait_for_timeout(300)
    assert sum(light[:3]) - sum(background(shown)[:3]) > 500
    assert ink(shown) != light_ink


def test_it_prints_in_light_colors_without_controls(browser: Browser, report: Path) -> None:
    with opened(browser, report, color_scheme="dark") as shown:
        assert shown.page.pdf().startswith(b"%PDF")
        shown.page.emulate_media(media="print")
        shown.page.wait_for_timeout(300)
        assert background(shown)[:3] == (255, 255, 255)
        assert sum(map(int, ink(shown).strip("rgb()").split(","))) < 200
        for control in ("nav", "details", ".skip"):
            assert not shown.page.locator(control).first.is_visible()
        wide = "[...document.querySelectorAll('.plot .main-svg')].map(one => one.getBoundingClientRect().width)"
        assert max(shown.evaluate(wide)) <= 640
        shown.page.emulate_media(media="screen")
        shown.page.wait_for_timeout(300)
        assert max(shown.evaluate(wide)) > 640
        assert shown.console == []


def test_nothing_is_cut_in_a_narrow_window(browser: Browser, report: Path) -> None:
    with opened(browser, report, viewport={"width": 390, "height": 800}) as shown:
        assert shown.evaluate("document.documentElement.scrollWidth") <= 390
        assert shown.console == []


def test_hostile_strings_do_not_run(browser: Browser, tmp_path: Path) -> None:
    document = simulation(
        command_line=HOSTILE, notes=[HOSTILE], systems=[system(HOSTILE, 0.5), system("<a href='x'>y</a>", 1)]
    )
    document["trace"] |= {"file": HOSTILE}
    document["history"]["sequences"]["segments"][0][3] = "stopped"
    with opened(browser, written(tmp_path, document)) as shown:
        assert shown.evaluate("window.hacked") is None
        assert shown.evaluate("document.querySelectorAll('img, svg a').length") == 0
        shown.page.locator("#systems summary").click()
        shown.page.locator("#systems table").wait_for()
        assert HOSTILE in (shown.page.locator("#systems tbody th").first.text_content() or "")
        assert HOSTILE in (shown.page.locator(".command").text_content() or "")
        assert shown.evaluate("window.hacked") is None
        assert shown.console == []
        assert len(shown.requests) == 1


def test_the_policy_stops_what_should_not_be_there(browser: Browser, report: Path, tmp_path: Path) -> None:
    changed = tmp_path / "changed.html"
    planted = '<script>window.hacked = 1</script><img src="https://example.com/a.png">'
    changed.write_text(report.read_text(encoding="utf-8").replace("<main", planted + "<main", 1), encoding="utf-8")
    with opened(browser, changed) as shown:
        assert shown.evaluate("window.hacked") is None
        assert len([line for line in shown.console if "Content Security Policy" in line]) == 2
        assert shown.refused == {"https://example.com/a.png": "csp"}


def test_a_reproduction_and_a_run_with_idle_steps_draw_too(browser: Browser, tmp_path: Path) -> None:
    idle = simulation()
    idle["history"]["series"] = series(4, gap_after=1) | {"seconds": [1.0, 2.0, 3.0, 4.0]}
    idle["history"]["block_map"]["steps"] = [0, 4, 50, 54, 58]
    for document in (reproduction(), idle):
        with opened(browser, written(tmp_path, document)) as shown:
            assert shown.evaluate("document.querySelectorAll('.plot .main-svg').length") > 0
            assert shown.console == []
