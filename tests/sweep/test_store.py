"""Results on disk: whole, or as good as missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pagedkv.errors import InvalidArgumentError
from pagedkv.sweep import ResultStore

KEY = "ab" * 32
DOCUMENT = {"outcome": "PASS", "figures": {"share": 0.1, "count": 3, "none": None}}


@pytest.fixture
def store(tmp_path: Path) -> ResultStore:
    store = ResultStore(tmp_path / "deep" / "results")
    store.open()
    store.save(KEY, DOCUMENT)
    return store


def test_what_was_saved_is_loaded(store: ResultStore) -> None:
    assert store.load(KEY) == DOCUMENT
    assert [file.name for file in store.folder.iterdir()] == [f"{KEY}.json"]
    assert store.load("cd" * 32) is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[: len(text) // 2],
        lambda text: text.replace('"count": 3', '"count": 4'),
        lambda text: text.replace('"count": 3', '"count": NaN'),
        lambda text: text.replace(KEY, "cd" * 32),
        lambda text: text.replace('"schema": 1', '"schema": 0'),
        lambda text: "[]",
        lambda text: "[" * 100_000,
        lambda text: json.dumps({"schema": 1, "key": KEY}),
        lambda text: "\0" * len(text),
    ],
)
def test_a_damaged_result_is_none_and_can_be_written_again(store: ResultStore, damage: object) -> None:
    assert callable(damage)
    file = store.folder / f"{KEY}.json"
    text = file.read_text(encoding="utf-8")
    damaged = damage(text)
    assert damaged != text
    file.write_text(damaged, encoding="utf-8")
    assert store.load(KEY) is None
    store.save(KEY, DOCUMENT)
    assert store.load(KEY) == DOCUMENT


def test_a_write_that_fails_leaves_what_was_there(store: ResultStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(InvalidArgumentError, match="No space left"):
        store.save(KEY, {"outcome": "FAIL"})
    assert store.load(KEY) == DOCUMENT
    assert len(list(store.folder.iterdir())) == 1


@pytest.mark.parametrize("name", ["file", "file/below", "a\0b", "n" * 5000])
def test_a_folder_that_cannot_be_one_is_told_before_the_run(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidArgumentError, match="results cannot be stored in"):
        ResultStore(tmp_path / name).open()
