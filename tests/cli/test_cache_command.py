"""`pagedkv cache`: path, size, clear."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pagedkv.kernels.cubin_cache import write_cubin

from .conftest import Run


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("PAGEDKV_CACHE_DIR", str(tmp_path / "own"))
    return tmp_path / "own" / "kernels"


def test_a_cache_that_does_not_exist_is_empty(run: Run, folder: Path) -> None:
    done = run("cache")
    assert (done.code, done.out) == (0, f"path: {folder}\nsize: 0 bytes\n")
    assert run("cache", "clear").code == 0
    assert not folder.exists()


def test_clear_removes_what_is_ours(run: Run, folder: Path) -> None:
    write_cubin("copy_blocks", "ab" * 32, bytes(5000))
    (folder / "notes.txt").write_text("mine", encoding="ascii")
    (entry,) = folder.glob("*.cubin")
    size = entry.stat().st_size
    assert run("cache").out == f"path: {folder}\nsize: {size:,} bytes\n"
    assert run("cache", "clear").out == f"removed {size:,} bytes from {folder}\n"
    assert [file.name for file in folder.iterdir()] == ["notes.txt"]


def test_an_unknown_action_is_refused(run: Run, folder: Path) -> None:
    done = run("cache", "clean")
    assert done.code == 2
    assert done.err.startswith("error: 'pagedkv cache clean' is unknown")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows keeps a user's folders to that user")
def test_a_cache_that_others_may_write_is_not_cleared(run: Run, folder: Path) -> None:
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    done = run("cache", "clear")
    assert done.code == 2
    assert "can be written by others" in done.err
