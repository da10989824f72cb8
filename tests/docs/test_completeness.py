"""What there is, is documented: public names, options, figures, error names; and the README keeps its promises."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import pytest

import pagedkv
import pagedkv.errors
from pagedkv import KVLayout
from pagedkv.cli.application import COMMANDS
from pagedkv.model_config import read_shape
from pagedkv.plan import read_catalog, weights_of

from .pages import REPOSITORY, blocks

DOCS = REPOSITORY / "docs"
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
API = (DOCS / "api.md").read_text(encoding="utf-8")
PLANNING = (DOCS / "planning.md").read_text(encoding="utf-8")
SWEEPS = (DOCS / "sweeps.md").read_text(encoding="utf-8")
SIMULATOR = (DOCS / "simulator.md").read_text(encoding="utf-8")
_OPTION = re.compile(r"--[a-z][a-z-]+")


def _cli(*words: str) -> str:
    command = [sys.executable, "-m", "pagedkv.cli", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(_cli("simulate", "--json", "-"))
    return loaded


@pytest.mark.parametrize("name", pagedkv.__all__)
def test_public_name_is_in_the_api_page(name: str) -> None:
    assert re.search(rf"\b{name}\b", API)
    named = getattr(pagedkv, name)
    if isinstance(named, type) and not issubclass(named, BaseException):
        missing = [a for a in dir(named) if not a.startswith("_") and not re.search(rf"\b{a}\b", API)]
        assert missing == []


def test_every_error_and_backend_error_name_is_in_the_errors_page() -> None:
    errors = (DOCS / "errors.md").read_text(encoding="utf-8")
    for name in pagedkv.errors.__all__:
        assert f"## {name}" in errors, name
    sources = "".join(file.read_text(encoding="utf-8") for file in (REPOSITORY / "src").rglob("*.py"))
    names = set(re.findall(r'name="([A-Z_]+)"', sources))
    assert len(names) >= 5
    for name in names:
        assert f"`{name}`" in errors, name


def test_every_command_is_in_the_simulator_page() -> None:
    for command in COMMANDS:
        assert f"pagedkv {command.__name__}" in SIMULATOR


def test_options_of_simulate_and_of_its_page_are_the_same() -> None:
    there = set(_OPTION.findall(_cli("simulate", "--help")))
    elsewhere = {"--device"}  # of selftest, too
    shown = set(_OPTION.findall(SIMULATOR))
    assert there - shown == set()
    assert shown - there - elsewhere == set()


def test_options_of_plan_and_of_its_page_are_the_same() -> None:
    there = set(_OPTION.findall(_cli("plan", "--help"))) - {"--help"}
    elsewhere = {"--device"}  # of simulate
    assert set(_OPTION.findall(PLANNING)) - elsewhere == there


def test_options_of_sweep_and_of_its_page_are_the_same() -> None:
    there = set(_OPTION.findall(_cli("sweep", "--help"))) - {"--help"}
    elsewhere = set(re.findall(r"^dask .*$", SWEEPS, re.MULTILINE))  # of Dask's own commands
    assert set(_OPTION.findall(SWEEPS)) - set(_OPTION.findall("".join(elsewhere))) == there


def test_every_key_of_a_plan_is_in_the_planning_page() -> None:
    plan = json.loads(_cli("plan", "--model", "Gemma-3-27B", "--gpu", "H200", "--json", "-"))
    tables = [plan, *(plan[key] for key in ("gpu", "model", "memory", "kv", "pool"))]
    for name in (name for table in (*tables, *plan["kv"]["kinds"], *plan["sequences"]) for name in table):
        assert f"`{name}`" in PLANNING, name


def test_the_planning_page_lists_the_catalog() -> None:
    catalog = read_catalog()
    for gpu in catalog.gpus.values():
        assert gpu.bandwidth is not None
        assert gpu.flops is not None
        figures = f"{gpu.memory_bytes / 2**20:,.0f} | {gpu.bandwidth / 1e9:,.0f} | {gpu.flops / 1e12:,g}"
        assert f"\n| {gpu.name} | {figures} | {', '.join(gpu.aliases)} |".replace("|  |", "| |") in PLANNING
    for model in catalog.models.values():
        shape = read_shape(model.config)
        layout = KVLayout(
            shape.num_layers, shape.num_kv_heads, shape.head_dim, shape.dtype, 16, v_head_dim=shape.v_head_dim
        )
        parameters = model.parameters or weights_of(model, shape).parameters
        row = f"\n| {model.name} | {layout.token_bytes:,} | {parameters:,} | {', '.join(model.aliases)} |"
        assert row.replace("|  |", "| |") in PLANNING
    names = {gpu.name for gpu in catalog.gpus.values()} | {model.name for model in catalog.models.values()}
    listed = re.findall(r"^\| ([\w.\-]+) \| [\d,]+ \|", PLANNING, re.MULTILINE)
    assert set(listed) == names
    assert len(listed) == len(names)


def test_every_figure_and_key_of_the_document_is_in_the_simulator_page(document: dict[str, Any]) -> None:
    for name in (*document, *document["figures"]):
        assert f"`{name}`" in SIMULATOR, name


def test_readme_is_short_and_has_its_two_commands() -> None:
    assert len(README.splitlines()) <= 150
    commands = [block.body.strip() for block in blocks(REPOSITORY / "README.md") if block.language == "sh"]
    assert commands == [
        "python3 -m venv .venv && .venv/bin/pip install . && .venv/bin/pagedkv simulate",
        "python3 -m venv .venv && .venv/bin/pip install '.[test]' && .venv/bin/python -m pytest",
    ]
    assert README.count("<!-- test-command -->\n```sh\n") == 1
    assert README.index("<!-- figures -->") < README.index("<!-- /figures -->")


def test_the_simulator_page_shows_the_dashboard_of_a_run(
    document: dict[str, Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from pagedkv.report.simulation import dashboard
    from pagedkv.report.terminal import print_report

    (drawn,) = (block for block in blocks(DOCS / "simulator.md") if "╭" in block.body)
    shown = drawn.body.splitlines()
    assert shown[0] == "$ pagedkv simulate"
    monkeypatch.setenv("COLUMNS", str(len(shown[1])))
    print_report(dashboard(document))
    printed = capsys.readouterr().out.splitlines()
    banner = 5  # device, memory and versions between two borders: they differ from machine to machine
    assert [line.rstrip() for line in shown[1 + banner :]] == [line.rstrip() for line in printed[banner:]]
