"""The disk cache of compiled kernels: what it keeps, and whom it does not trust."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from pagedkv.errors import BackendError
from pagedkv.kernels import cubin_cache
from pagedkv.kernels.cubin_cache import (
    KernelCacheWarning,
    cache_path,
    cache_size,
    clear_cache,
    read_cubin,
    write_cubin,
)

_KEY, _CUBIN = "ab" * 32, b"\x7fELF" + bytes(range(256)) * 20
_POSIX = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="Windows keeps a user's directories to that user")


def _only_entry() -> Path:
    (entry,) = cache_path().iterdir()
    return entry


def test_keeps_what_it_is_given() -> None:
    assert (read_cubin("slots", _KEY), cache_size(), clear_cache()) == (None, 0, 0)
    assert not cache_path().exists()
    write_cubin("slots", _KEY, _CUBIN)
    assert read_cubin("slots", _KEY) == _CUBIN
    assert read_cubin("slots", "cd" * 32) is None
    assert read_cubin("scrub", _KEY) is None
    assert cache_size() == _only_entry().stat().st_size > len(_CUBIN)
    assert clear_cache() > len(_CUBIN)
    assert (read_cubin("slots", _KEY), cache_size()) == (None, 0)


@_POSIX
def test_is_ours_alone() -> None:
    before = os.umask(0)
    try:
        write_cubin("slots", _KEY, _CUBIN)
    finally:
        os.umask(before)
    assert stat.S_IMODE(cache_path().stat().st_mode) == 0o700
    assert stat.S_IMODE(_only_entry().stat().st_mode) == 0o600


def test_clears_only_its_own_files(cache_root: Path) -> None:
    write_cubin("slots", _KEY, _CUBIN)
    notes = cache_path() / "notes.txt"
    notes.write_text("mine")
    (cache_path() / ".interrupted.tmp").write_bytes(b"half")
    clear_cache()
    assert list(cache_path().iterdir()) == [notes]
    assert cache_root.is_dir()


@pytest.mark.parametrize("damage", ["cut", "empty", "one bit", "header", "another key's"])
def test_a_damaged_entry_is_no_entry(damage: str) -> None:
    write_cubin("slots", _KEY, _CUBIN)
    entry = _only_entry()
    content = bytearray(entry.read_bytes())
    if damage == "one bit":
        content[-1] ^= 1
    elif damage == "header":
        content[0] ^= 1
    entry.write_bytes({"cut": content[:-1], "empty": b""}.get(damage, bytes(content)))
    if damage == "another key's":
        entry.rename(entry.with_name(f"slots-{'cd' * 32}.cubin"))
        assert read_cubin("slots", "cd" * 32) is None
    assert read_cubin("slots", _KEY) is None
    write_cubin("slots", _KEY, _CUBIN)
    assert read_cubin("slots", _KEY) == _CUBIN


@_POSIX
@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777, 0o1777])
def test_a_directory_that_others_write_is_not_used(mode: int) -> None:
    write_cubin("slots", _KEY, _CUBIN)
    cache_path().chmod(mode)
    with pytest.warns(KernelCacheWarning, match="can be written by others"):
        assert read_cubin("slots", _KEY) is None
    _entry_stays_and_nothing_more_is_said()
    with pytest.raises(BackendError, match="CACHE_NOT_OURS"):
        clear_cache()
    cache_path().chmod(0o755)
    assert read_cubin("slots", _KEY) == _CUBIN


@_POSIX
def test_a_directory_of_somebody_else_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    write_cubin("slots", _KEY, _CUBIN)
    somebody = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: somebody)
    with pytest.warns(
        KernelCacheWarning, match=f"belongs to user {somebody - 1}, this process runs as user {somebody}"
    ):
        assert read_cubin("slots", _KEY) is None
    _entry_stays_and_nothing_more_is_said()
    with pytest.raises(BackendError, match="CACHE_NOT_OURS"):
        clear_cache()


@_POSIX
def test_a_link_to_somebody_else_s_directory_is_not_used(tmp_path: Path, cache_root: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    theirs.chmod(0o777)
    cache_root.mkdir()
    (cache_root / "kernels").symlink_to(theirs)
    with pytest.warns(KernelCacheWarning, match="can be written by others"):
        write_cubin("slots", _KEY, _CUBIN)
    assert list(theirs.iterdir()) == []


def test_a_file_in_the_directory_s_place(cache_root: Path) -> None:
    cache_root.write_text("a file")
    assert read_cubin("slots", _KEY) is None
    with pytest.warns(KernelCacheWarning, match="not kept on disk.*PAGEDKV_CACHE_DIR"):
        write_cubin("slots", _KEY, _CUBIN)
    assert (cache_size(), clear_cache()) == (0, 0)


@_POSIX
def test_a_read_only_directory() -> None:
    write_cubin("slots", _KEY, _CUBIN)
    cache_path().chmod(0o500)
    if os.access(cache_path(), os.W_OK):
        pytest.skip("this user (root) may write read-only directories")
    assert read_cubin("slots", _KEY) == _CUBIN
    with pytest.warns(KernelCacheWarning, match="Permission denied"):
        write_cubin("slots", "cd" * 32, _CUBIN)
    with pytest.raises(BackendError, match="CACHE_NOT_WRITABLE"):
        clear_cache()
    cache_path().chmod(0o700)


@pytest.mark.skipif(sys.platform == "win32", reason="no limit on the size of files there")
def test_a_full_disk_leaves_nothing_behind() -> None:
    """A limit on the size of files fails the write half-way, as a full disk does."""
    done = _python(
        "import resource, warnings\n"
        "from pagedkv.kernels.cubin_cache import write_cubin\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "with warnings.catch_warnings(record=True) as caught:\n"
        "    warnings.simplefilter('always')\n"
        f"    write_cubin('slots', '{_KEY}', bytes(100_000))\n"
        f"    write_cubin('slots', '{_KEY}', bytes(100_000))\n"
        "print([w.category.__name__ for w in caught])"
    )
    assert done.stdout.strip() == "['KernelCacheWarning']", done.stderr
    assert list(cache_path().iterdir()) == []


def test_readers_see_whole_entries_while_others_write() -> None:
    """Two processes replace one entry again and again; a reader sees one of the two contents, never a mixture."""
    contents = [bytes([digit]) * 500_000 for digit in (1, 2)]
    write_cubin("slots", _KEY, contents[0])
    writer = "from pagedkv.kernels.cubin_cache import write_cubin\n"
    writer += "for _ in range(150): write_cubin('slots', '{}', bytes([{}]) * 500_000)"
    writers = [subprocess.Popen([sys.executable, "-c", writer.format(_KEY, digit)]) for digit in (1, 2)]
    seen = set()
    while any(process.poll() is None for process in writers):
        seen.add(read_cubin("slots", _KEY))
    assert [process.returncode for process in writers] == [0, 0]
    assert seen <= set(contents), "a reader saw half an entry, or none"
    assert len(list(cache_path().iterdir())) == 1


def test_where_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cache_root: Path) -> None:
    assert cache_path() == cache_root / "kernels"
    monkeypatch.setenv("PAGEDKV_CACHE_DIR", "here")
    assert cache_path() == Path.cwd() / "here" / "kernels"
    monkeypatch.setenv("PAGEDKV_CACHE_DIR", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    for platform, parent in (
        ("linux", tmp_path / "xdg"),
        ("darwin", tmp_path / "Library" / "Caches"),
        ("win32", tmp_path / "local"),
    ):
        monkeypatch.setattr(cubin_cache.sys, "platform", platform)
        assert cache_path() == parent / "pagedkv" / "kernels"
    monkeypatch.setattr(cubin_cache.sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_path() == tmp_path / ".cache" / "pagedkv" / "kernels"


def _entry_stays_and_nothing_more_is_said() -> None:
    before = _only_entry().read_bytes()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        write_cubin("slots", _KEY, b"other")
        assert read_cubin("slots", _KEY) is None
    assert _only_entry().read_bytes() == before


def _python(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
