"""Fills a page: one HTML file with style, script, data and plotly.js inside, whose policy forbids every request.

What comes from documents is escaped twice over: in HTML by the template, in the data by leaving no character there that
HTML could take for the end of a script.
"""

from __future__ import annotations

import json
from base64 import b64encode
from hashlib import sha256
from importlib.resources import files
from typing import Any

from pagedkv.report.html.page import Page

_SCRIPTS = ("colors.js", "map.js", "spans.js", "charts.js", "legend.js", "tables.js", "page.js")
_IN_SCRIPT = {ord(character): f"\\u{ord(character):04x}" for character in "<>&"}


def render(page: Page) -> bytes:
    """Return the file's bytes: the same for the same page and versions. Needs the extra `report`."""
    from jinja2 import Environment, StrictUndefined
    from plotly.offline import get_plotlyjs

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    scripts = [_sealed(get_plotlyjs()), _sealed(_script())]
    html: str = environment.from_string(_asset("page.html.j2")).render(
        page=page,
        style=_asset("page.css"),
        scripts=scripts,
        policy=_policy(scripts),
        data=script_json({chart.name: chart.data() for group in page.groups for chart in group.charts}),
    )
    # A file name may have bytes that are no text; they are no HTML either.
    return html.encode("utf-8", errors="replace")


def script_json(data: Any) -> str:
    """Return JSON in ASCII without <, > and &: nothing in it ends a script element, or begins a comment. Pure."""
    return json.dumps(data, allow_nan=False, separators=(",", ":")).translate(_IN_SCRIPT)


def _policy(scripts: list[str]) -> str:
    """Return the page's Content-Security-Policy: these two scripts, inline style (plotly.js sets it), no network."""
    sums = " ".join(f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'" for script in scripts)
    return (
        f"default-src 'none'; script-src {sums}; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; "
        "form-action 'none'"
    )


def _script() -> str:
    return '"use strict";\n(() => {\n' + "\n".join(_asset(f"scripts/{name}") for name in _SCRIPTS) + "})();\n"


def _sealed(script: str) -> str:
    """Return a script as it is, if it cannot end its element early, and in the line ends that a browser hashes."""
    script = script.replace("\r\n", "\n").replace("\r", "\n")
    if "</script" in script.lower() or "<!--" in script:
        raise AssertionError("a script of the page has the end of a script in it")
    return script


def _asset(name: str) -> str:
    return files("pagedkv.report.html").joinpath("assets", *name.split("/")).read_text(encoding="utf-8")
