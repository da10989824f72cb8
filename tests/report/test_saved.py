"""Documents from files: only ours are taken."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pagedkv.errors import InvalidArgumentError
from pagedkv.report.saved import read_document

from .documents import simulation


def test_ours_is_read_as_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    file.write_text(json.dumps(simulation()), encoding="utf-8")
    assert read_document(str(file)) == simulation()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "it is not JSON"),
        (b"TIMESTAMP,ContextTokens\n", "it is not JSON"),
        (b"\xff\xfe{}", "it is not UTF-8"),
        (b"[1, 2]", "it has no schema and command"),
        (b'{"schema": 1}', "it has no schema and command"),
        (b'{"schema": 1, "benchmarks": []}', "it has no schema and command"),
        (b'{"schema": 1, "command": []}', "it has no schema and command"),
        (b'{"schema": 2, "command": "simulate"}', "its schema is 2, this version reads 1"),
        (b'{"schema": 1, "command": "bake"}', "command 'bake' is not known"),
        (b'{"schema": 1, "command": "compare"}', "it is a comparison"),
        (b'{"schema": 1, "command": "simulate", "figures": NaN}', "NaN is no number of a result"),
        (b'{"schema": 1, "command": "simulate", "figures": 1e999}', "1e999... is no number of a result"),
        (b'{"schema": 1, "command": "simulate", "figures": -%d}' % 10**400, "-10000000000000000000000... is no number"),
        (b"[" * 100_000, "it is not JSON"),
    ],
    ids=lambda value: value[:24] if isinstance(value, bytes) else None,
)
def test_what_is_none_of_ours_says_why(content: bytes, why: str, tmp_path: Path) -> None:
    file = tmp_path / "other.json"
    file.write_bytes(content)
    with pytest.raises(InvalidArgumentError) as refused:
        read_document(str(file))
    assert why in str(refused.value)
    assert "--json FILE" in str(refused.value)


@pytest.mark.parametrize("name", ["missing.json", "", "a\0b"])
def test_a_file_that_is_not_there_is_an_error(name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="cannot be read"):
        read_document(str(tmp_path / name) if name == "missing.json" else name)


@pytest.mark.parametrize(
    ("part", "value", "why"),
    [
        ("figures", None, "there is no 'figures'"),
        ("figures", {}, "there is no '"),
        ("versions", None, "there is no 'versions'"),
        ("config", [], "'list' object has no attribute"),
        ("history", {"series": {}}, "there is no 'first_step'"),
        ("systems", [1], "not subscriptable"),
    ],
)
def test_a_document_that_is_not_whole_says_what_stopped_it(part: str, value: object, why: str, tmp_path: Path) -> None:
    document = simulation(**{part: value})
    if value is None:
        del document[part]
    file = tmp_path / "broken.json"
    file.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(InvalidArgumentError) as refused:
        read_document(str(file))
    assert "marked as of `pagedkv simulate`, but has not its form" in str(refused.value)
    assert why in str(refused.value)
