"""The file of a page: one, self-contained, the same every time, small enough, and safe whatever a trace says."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from typing import Any

import pytest

from pagedkv.report.comparison import compare_documents
from pagedkv.report.html.compare_page import compare_page
from pagedkv.report.html.page import page_of
from pagedkv.report.html.render import render, script_json

from .documents import HOSTILE, largest, reproduction, simulation, system

pytest.importorskip("jinja2", reason="jinja2 is not installed; the extra `report` brings it")
pytest.importorskip("plotly", reason="plotly is not installed; the extra `report` brings it")

MOST_BYTES = 8_000_000


class Elements(HTMLParser):
    """What a parser finds: tags with their attributes, scripts by type, and the text outside them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[str, str]] = []
        self.text = ""
        self._inside: str | None = None
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag if tag in ("script", "style") else self._inside
        if tag == "script":
            self.scripts.append((dict(attrs).get("type") or "script", ""))

    def handle_endtag(self, tag: str) -> None:
        self._inside = None if tag == self._inside else self._inside

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            kind, text = self.scripts[-1]
            self.scripts[-1] = (kind, text + data)
        elif self._inside is None:
            self.text += data


def html(document: dict[str, Any]) -> str:
    return render(page_of(document)).decode("utf-8")


def hostile() -> dict[str, Any]:
    document = simulation(command_line=HOSTILE, notes=[HOSTILE], outcome="FAIL", failures=[HOSTILE])
    document["trace"] |= {"file": HOSTILE, "skipped": [{"row": 1, "column": HOSTILE, "reason": HOSTILE}], "bad_rows": 1}
    document["device"] |= {"description": HOSTILE}
    document["history"]["sequences"]["segments"][0][3] = "completed"
    document["systems"] = [_named(HOSTILE)]
    return document


def _named(reservation: str) -> dict[str, Any]:
    means = {"token_states": 1.0, "reservation": 0.0, "internal": 0.0, "external_and_free": 0.0, "running": 1.0}
    figures = {"requests": 1, "rejected": 0, "steps": 1, "mean": means, "saturated": means}
    return {"reservation": reservation, "placement": HOSTILE, "interrupted": False, "figures": figures}


def test_the_page_is_the_same_every_time() -> None:
    assert render(page_of(simulation())) == render(page_of(simulation()))


def test_the_largest_report_is_small_enough() -> None:
    assert len(render(page_of(largest()))) <= MOST_BYTES


def test_nothing_is_loaded_from_elsewhere() -> None:
    for tag, attributes in Elements(html(simulation())).tags:
        for name in ("src", "href", "srcset", "action", "data", "poster"):
            target = attributes.get(name)
            assert target is None or target.startswith(("#", "data:")), f"<{tag} {name}={target}>"


def test_the_policy_forbids_everything_but_the_two_scripts() -> None:
    page = Elements(html(simulation()))
    policy = next(a["content"] for t, a in page.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none'; ")
    sums = [b64encode(sha256(text.encode()).digest()).decode() for kind, text in page.scripts if kind == "script"]
    assert re.findall(r"'sha256-([^']+)'", policy) == sums
    assert len(sums) == 2
    assert not {"connect-src", "font-src", "frame-src", "'unsafe-eval'"} & set(policy.split())


def test_hostile_strings_stay_text() -> None:
    calm, attacked = Elements(html(simulation())), Elements(html(hostile()))
    assert [kind for kind, _ in attacked.scripts] == [kind for kind, _ in calm.scripts]
    assert [text for kind, text in attacked.scripts if kind == "script"] == [
        text for kind, text in calm.scripts if kind == "script"
    ]
    assert not [tag for tag, _ in attacked.tags if tag == "img"]
    assert not [name for _, attributes in attacked.tags for name in attributes if name.startswith("on")]
    assert attacked.text.count(HOSTILE) >= 5


def test_data_in_a_script_cannot_end_it_and_says_the_same() -> None:
    text = script_json({HOSTILE: [HOSTILE, 1.5, None]})
    assert not set("<>&") & set(text)
    assert text.isascii()
    assert json.loads(text) == {HOSTILE: [HOSTILE, 1.5, None]}


def test_a_number_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        script_json([float("nan")])


def test_a_file_name_of_bytes_that_are_no_text_is_written_too() -> None:
    document = simulation(command_line="pagedkv simulate --trace '\udcff.csv'")
    assert b"pagedkv simulate --trace &#39;?.csv&#39;" in render(page_of(document))


def test_every_part_has_a_name_for_those_who_cannot_see_it() -> None:
    page = Elements(html(simulation()))
    plots = [attributes for tag, attributes in page.tags if "data-chart" in attributes]
    assert len(plots) == 9
    for attributes in plots:
        assert attributes["role"] == "img"
        assert attributes["tabindex"] == "0"
        assert len(attributes["aria-label"] or "") > 40
    buttons = [attributes for tag, attributes in page.tags if tag == "button"]
    assert buttons
    assert all(attributes["aria-pressed"] == "true" for attributes in buttons)
    assert ("a", {"class": "skip", "href": "#main"}) in page.tags


@pytest.mark.parametrize("document", [simulation(systems=[system(None, 1.0)]), reproduction()], ids=["run", "figure"])
def test_every_link_has_its_one_target(document: dict[str, Any]) -> None:
    page = Elements(html(document))
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    targets = [(attributes["href"] or "")[1:] for tag, attributes in page.tags if tag == "a"]
    assert len(targets) >= 4
    assert set(targets) <= set(ids)


def test_the_data_of_the_page_are_the_charts() -> None:
    page = Elements(html(reproduction()))
    (text,) = (text for kind, text in page.scripts if kind == "application/json")
    data = json.loads(text)
    assert list(data) == ["paper", "systems"]
    assert data["paper"]["traces"][0]["x"] == [96.4, 56.0]
    assert "pagedkv reproduce sosp23-figure2 --trace requests.csv" in page.text


def test_a_comparison_shows_settings_first_then_one_run_over_the_other() -> None:
    documents = (simulation(), simulation(outcome="FAIL", failures=["x"]))
    documents[1]["config"] |= {"blocks": 50}
    page = compare_page(compare_documents(documents, ("one.json", "<b>.json")), documents)
    assert [table.title for table in page.lead] == ["What differs in configuration"]
    assert [chart.name for group in page.groups for chart in group.charts] == [
        "utilization", "stored", "running", "waiting",
    ]  # fmt: skip
    text = Elements(render(page).decode("utf-8")).text
    assert text.index("What differs in configuration") < text.index("Blocks in use over time")
    assert "B: <b>.json" in text
