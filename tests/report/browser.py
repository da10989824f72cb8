"""A real Chromium without a window, and a page in it that keeps what went wrong."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def chromium_path() -> str | None:
    """Return PAGEDKV_CHROMIUM, or a Chromium of the system, or None."""
    return os.environ.get("PAGEDKV_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start a browser. Skips the test, with the reason, where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = chromium_path()
    if path is None:
        pytest.skip(f"no Chromium: none of {', '.join(NAMES)} is installed, and PAGEDKV_CHROMIUM is not set")
    with playwright.sync_playwright() as running:
        # No sandbox: it needs rights that a container's root does not have; the pages are our own.
        browser = running.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@dataclass
class Opened:
    """A report in the browser: what it asked for, why it did not get it, and everything that its console said."""

    page: Page
    requests: list[str] = field(default_factory=list)
    refused: dict[str, str | None] = field(default_factory=dict)
    console: list[str] = field(default_factory=list)

    def evaluate(self, script: str) -> Any:
        """Return what a script finds."""
        return self.page.evaluate(script)


@contextmanager
def opened(browser: Browser, file: Path, **context: Any) -> Iterator[Opened]:
    """Open a report from disk and wait until its charts are drawn. context: options of a new browser context."""
    own = browser.new_context(**{"viewport": {"width": 1200, "height": 900}} | context)
    shown = Opened(own.new_page())
    shown.page.on("console", lambda message: shown.console.append(f"{message.type}: {message.text}"))
    shown.page.on("pageerror", lambda error: shown.console.append(f"error: {error}"))
    shown.page.on("dialog", lambda dialog: shown.console.append(f"dialog: {dialog.message}"))
    own.on("request", lambda request: shown.requests.append(request.url))
    own.on("requestfailed", lambda request: shown.refused.update({request.url: request.failure}))
    shown.page.goto(file.as_uri())
    shown.page.wait_for_selector("html[data-ready=true]", timeout=60_000)
    yield shown
    own.close()
