"""The largest HTML report that a run can leave, opened in headless Chromium until its last chart is drawn.

Needs the extra `report`, the Python package playwright, and a Chromium: of the system, or PAGEDKV_CHROMIUM.
"""

import importlib.util
import tempfile
import time
from pathlib import Path
from statistics import median

from benchmarks.report import Benchmark, Row, Settings, Target

TARGET_SECONDS = 3.0
TARGET_BYTES = 8_000_000
NEEDED = ("jinja2", "plotly", "playwright")


def run(settings: Settings) -> list[Row]:
    """Nothing where a package or the browser is missing."""
    from tests.report.browser import chromium_path

    browser = chromium_path()
    if browser is None or any(importlib.util.find_spec(name) is None for name in NEEDED):
        return []
    content = page()
    opened = settings.pick(9, 1)
    times = opening_seconds(content, browser, opened)
    note = f"least of {opened} openings, each in a new browser context; median {median(times):.2f} s"
    return [
        Row("largest report, bytes", len(content), "B", Target(TARGET_BYTES)),
        Row("largest report, wall until every chart is drawn", min(times), "s", Target(TARGET_SECONDS), note=note),
    ]


def page() -> bytes:
    """1,000 buckets, a map of 256 x 400, 10,000 running spans of 400 requests, ten systems."""
    from tests.report.documents import largest

    from pagedkv.report.html.page import page_of
    from pagedkv.report.html.render import render

    return render(page_of(largest()))


def opening_seconds(content: bytes, browser: str, times: int) -> list[float]:
    """Seconds from the address being typed to the last chart, by the wall clock."""
    from playwright.sync_api import sync_playwright

    found = []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = Path(folder) / "largest.html"
        file.write_bytes(content)
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        for _ in range(times):
            context = chromium.new_context(viewport={"width": 1400, "height": 900})
            tab = context.new_page()
            start = time.perf_counter()
            tab.goto(file.as_uri())
            tab.wait_for_selector("html[data-ready=true]")
            found.append(time.perf_counter() - start)
            context.close()
        chromium.close()
    return found


BENCHMARK = Benchmark("report-opening", "open the largest report in Chromium", run, in_process=False)
