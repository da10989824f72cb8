"""Files that are there whole, or as they were before."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pagedkv.whole_file import whole_file


def test_what_raises_leaves_the_old_file_and_nothing_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "kept"
    file.write_bytes(b"old")
    for target in (file, tmp_path / "new"):
        with pytest.raises(ZeroDivisionError), whole_file(target) as stream:
            stream.write(bytes(1 // (stream.write(b"half") - 4)))
        assert file.read_bytes() == b"old"
        assert list(tmp_path.iterdir()) == [file]


def test_readers_see_the_old_file_until_the_new_one_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "seen"
    file.write_bytes(b"old")
    with whole_file(file) as stream:
        stream.write(b"new")
        stream.flush()
        assert file.read_bytes() == b"old"
    assert file.read_bytes() == b"new"


@pytest.mark.skipif(os.name != "posix", reason="links and permission bits: POSIX only")
def test_links_stay_and_modes_too(tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_bytes(b"old")
    file.chmod(0o640)
    link.symlink_to(file)
    with whole_file(link) as stream:
        stream.write(b"new")
    assert link.is_symlink()
    assert file.read_bytes() == b"new"
    assert file.stat().st_mode & 0o777 == 0o640


@pytest.mark.skipif(os.name != "posix", reason="permission bits: POSIX only")
def test_others_may_read_what_their_umask_allows(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        with whole_file(tmp_path / "one") as stream:
            stream.write(b"text")
    finally:
        os.umask(before)
    assert (tmp_path / "one").stat().st_mode & 0o777 == 0o644
