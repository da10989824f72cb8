"""Content keys: the same for the same run, another for whatever could change a result."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from pagedkv.cli.sweep_program import simulation_options
from pagedkv.sweep import Program
from pagedkv.sweep.keys import content_key
from pagedkv.sweep.program import resolved

from .tasks import ADDITION, sweep_of


def key(folder: Path, text: str, program: Program = ADDITION) -> str:
    """The key of a spec's only configuration."""
    (one,) = sweep_of(folder, f"[[also]]\n{text}", program).configurations
    return content_key(program, one)


def test_the_spelling_and_order_of_options_and_defaults_do_not_matter(tmp_path: Path) -> None:
    assert key(tmp_path, "a = 2\nfails-at = 7") == key(tmp_path, "fails_at = 7\nb = 1\na = 2")
    assert len(key(tmp_path, "a = 2")) == 64


def test_every_value_matters(tmp_path: Path) -> None:
    texts = ["", "a = 1", "a = 2", "a = 2\nb = 2", "fails-at = 1", "held = true", "word = '1'", "word = ''"]
    assert len({key(tmp_path, text) for text in texts}) == len(texts)


def test_versions_matter(tmp_path: Path) -> None:
    newer = replace(ADDITION, versions={"numpy": "99"})
    assert key(tmp_path, "a = 2", newer) != key(tmp_path, "a = 2")


def test_a_file_counts_by_its_content_and_not_by_its_name(tmp_path: Path) -> None:
    for name, content in (("one", "1,2"), ("renamed", "1,2"), ("other", "1,3")):
        (tmp_path / name).write_text(content, encoding="ascii")
    one, renamed, other = (key(tmp_path, f"read-from = '{name}'") for name in ("one", "renamed", "other"))
    assert one == renamed
    assert one != other
    (tmp_path / "one").write_text("1,3", encoding="ascii")
    os.utime(tmp_path / "one", ns=(0, 5))  # the same size within one tick of the clock would be the same file
    assert key(tmp_path, "read-from = 'one'") == other


def test_paths_start_from_the_specs_folder(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "data").write_text("1", encoding="ascii")
    assert key(tmp_path, "read-from = 'data'") == key(tmp_path / "deep", "read-from = '../data'")


def test_what_may_be_a_file_is_one_where_it_is_there(tmp_path: Path) -> None:
    by_name = key(tmp_path, "model = 'tiny'")
    assert by_name != key(tmp_path, "model = 'large'")
    (tmp_path / "tiny").write_text("{}", encoding="ascii")
    assert key(tmp_path, "model = 'tiny'") != by_name


def test_a_folder_counts_by_the_sessions_in_it(tmp_path: Path) -> None:
    folder = tmp_path / "sessions"
    folder.mkdir()
    (folder / "a.json").write_text("{}", encoding="ascii")
    before = key(tmp_path, "read-from = 'sessions'")
    (folder / "notes.txt").write_text("no session", encoding="ascii")
    assert key(tmp_path, "read-from = 'sessions'") == before
    (folder / "b.json").write_text("{}", encoding="ascii")
    assert key(tmp_path, "read-from = 'sessions'") != before


def test_a_file_inside_a_value_counts_with_what_stands_around_it(tmp_path: Path) -> None:
    program = replace(ADDITION, options=simulation_options())
    for name, content in (("one", "1,2"), ("renamed", "1,2"), ("other", "1,3")):
        (tmp_path / name).write_text(content, encoding="ascii")
    texts = ["fit:one", "fit:renamed", "fit:other", "roofline:one:H100", "roofline:one:H200", "roofline:none:H100"]
    keys = [key(tmp_path, f"step-time = '{text}'", program) for text in texts]
    assert keys[0] == keys[1]
    assert len(set(keys)) == 5
    (one,) = sweep_of(tmp_path, "[[also]]\nstep-time = 'roofline:one:H100'", program).configurations
    assert resolved(program, one) == {"step_time": f"roofline:{tmp_path / 'one'}:H100"}
