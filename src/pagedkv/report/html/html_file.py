"""The HTML file of a report: checked before the run, written after it."""

from __future__ import annotations

from pagedkv.errors import InvalidArgumentError
from pagedkv.report.html.extra import require_packages
from pagedkv.report.html.page import Page
from pagedkv.report.output_file import OutputFile


class HtmlFile:
    """target: its path. Errors: InvalidArgumentError for a missing extra, or a path that cannot be opened."""

    def __init__(self, target: str) -> None:
        require_packages()
        if target == "-":
            raise InvalidArgumentError("a report is a file to open in a browser, not standard output; give FILE.html")
        self._file = OutputFile(target, "report", "give a writable path")

    def write(self, page: Page) -> int:
        """Write the page and return its bytes; what raises, Ctrl-C too, leaves no new file."""
        from pagedkv.report.html import render

        try:
            content = render.render(page)
            self._file.write(content)
        except BaseException:
            self.discard()
            raise
        return len(content)

    def discard(self) -> None:
        """Remove the file that opening made, if there is no whole page."""
        self._file.discard()
