"""The spec of a sweep: which configurations it means, and what is said of one that means none."""

from __future__ import annotations

from pathlib import Path

import pytest

from pagedkv.errors import InvalidArgumentError
from pagedkv.sweep import read_sweep

from .tasks import ADDITION, sweep_of


def test_the_product_in_order_then_single_ones(tmp_path: Path) -> None:
    sweep = sweep_of(
        tmp_path,
        """
        [fixed]
        b = 5
        [grid]
        a = [1, 2]
        word = ["x", "y"]
        [[also]]
        a = 9
        b = 6
        [[also]]
        """,
    )
    assert [dict(one.given) for one in sweep.configurations] == [
        {"b": 5, "a": 1, "word": "x"},
        {"b": 5, "a": 1, "word": "y"},
        {"b": 5, "a": 2, "word": "x"},
        {"b": 5, "a": 2, "word": "y"},
        {"b": 6, "a": 9},
        {"b": 5},
    ]
    assert sweep.varied == ("a", "word", "b")
    assert [one.number for one in sweep.configurations] == [1, 2, 3, 4, 5, 6]
    assert [one.name for one in sweep.configurations][3:] == ["a 2, word y, b 5", "a 9, b 6", "b 5"]


def test_names_have_either_spelling_and_texts_may_be_numbers(tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path, "[fixed]\nfails-at = 3\n[grid]\nword = [1, 2.5, '3%']\nheld = [true, false]")
    assert [dict(one.given) for one in sweep.configurations][::2] == [
        {"fails_at": 3, "word": word, "held": True} for word in ("1", "2.5", "3%")
    ]
    assert sweep.configurations[1].name == "word 1, held false"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["nothing to run"]),
        ("[fixed]\na = 1", ["nothing to run"]),
        ("[grid]", ["grid is empty"]),
        ("[grid]\na = []", ["grid, a", "an empty list"]),
        ("[grid]\na = 3", ["grid, a", "3", "a list"]),
        ("[grid]\nc = [1]", ["grid, c", "no option of a sweep", "fails-at"]),
        ("[fixed]\nc = 1\n[grid]\na = [1]", ["fixed, c"]),
        ("[[also]]\na = 1\n[[also]]\nc = 1", ["also 2, c"]),
        ("[grid]\na = [1, 2.0]", ["grid, a, value 2", "2.0", "a whole number"]),
        ("[grid]\na = [true]", ["grid, a, value 1", "true", "a whole number"]),
        ("[grid]\na = [[1]]", ["value 1", "a whole number"]),
        ("[grid]\nheld = [1]", ["grid, held, value 1", "true or false"]),
        ("[grid]\nword = [true]", ["grid, word, value 1", "a text or a number"]),
        ("[grid]\nword = [nan]", ["grid, word, value 1", "a text or a number"]),
        ("[grid]\nword = [1979-05-27]", ["grid, word, value 1"]),
        ("[grid]\na = [1, 2, 1]", ["grid, a", "1 twice"]),
        ("[grid]\nword = [1, '1']", ["grid, word", "1 twice"]),
        ("[fixed]\na = 1\n[grid]\na = [1]", ["grid, a", "[fixed]"]),
        ("[grid]\nfails-at = [1]\nfails_at = [2]", ["fails_at", "twice"]),
        ("[grid]\na = [1]\n[[also]]\na = 1", ["configuration 2", "configuration 1 again"]),
        ("[[also]]\n[[also]]", ["configuration 2 (as fixed)", "again"]),
        ("grid = 3", ["grid is 3", "[grid]"]),
        ("also = 3", ["[[also]]"]),
        ("[also]\na = 1", ["[[also]]"]),
        ("[grids]\na = [1]", ["'grids' is unknown"]),
        ("[grid\n", ["no TOML", "line 1"]),
        ("\0", ["no TOML"]),
        (f"[grid]\na = {list(range(101))}\nb = {list(range(100))}", ["10,100", "10,000"]),
    ],
)
def test_what_is_wrong_is_told_with_its_place(tmp_path: Path, text: str, words: list[str]) -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        sweep_of(tmp_path, text)
    for word in ("sums.toml", *words):
        assert word in str(raised.value)


@pytest.mark.parametrize("name", ["missing.toml", ".", "a\0b", "n" * 5000, "latin.toml", "large.toml"])
def test_files_that_are_no_spec(tmp_path: Path, name: str) -> None:
    (tmp_path / "latin.toml").write_bytes(b"# caf\xe9\n")
    (tmp_path / "large.toml").write_bytes(b"#" * ((4 << 20) + 1))
    with pytest.raises(InvalidArgumentError):
        read_sweep(tmp_path / name, ADDITION)


def test_ten_thousand_are_not_too_many(tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path, f"[grid]\na = {list(range(100))}\nb = {list(range(100))}")
    assert len(sweep.configurations) == 10_000
