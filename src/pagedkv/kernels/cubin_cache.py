"""Compiled kernels on disk: one file a cubin, kept between processes.

A cubin runs on the GPU with this process's rights, so the directory must be ours alone: it is made with mode 0700, and
one that somebody else owns or may write is not used. Whatever goes wrong here costs a compilation, never an error: the
cache is left out with one KernelCacheWarning. An entry carries a checksum over its key and content; one that does not
match is compiled again. Writers put a finished file in place with one rename, so readers, other processes included,
see a whole entry or none.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import tempfile
import threading
import warnings
from contextlib import suppress
from pathlib import Path

from pagedkv.errors import BackendError

FORMAT = 1
_MAGIC = b"pagedkv cubin %d\n" % FORMAT
_HEADER_BYTES = len(_MAGIC) + hashlib.sha256().digest_size
_warned: set[Path] = set()
_lock = threading.Lock()


class KernelCacheWarning(RuntimeWarning):
    """Compiled kernels are not kept on disk; every process compiles them anew."""


def cache_path() -> Path:
    """The directory of compiled kernels; it need not exist. Modifies nothing.

    PAGEDKV_CACHE_DIR/kernels if that variable is set, else pagedkv/kernels in the platform's directory for caches.
    """
    if own := os.environ.get("PAGEDKV_CACHE_DIR"):
        return Path(own).absolute() / "kernels"
    return _platform_cache() / "pagedkv" / "kernels"


def cache_size() -> int:
    """Bytes of compiled kernels on disk; 0 without a directory. Modifies nothing."""
    total = 0
    for entry in _entries():
        with suppress(FileNotFoundError):  # another process may clear the cache meanwhile
            total += entry.stat().st_size
    return total


def clear_cache() -> int:
    """Remove all compiled kernels from disk; the number of bytes removed.

    Modifies the cache directory only, and there only its own files. Raises BackendError for a directory that is not
    ours alone, or that cannot be written.
    """
    path = cache_path()
    if path.is_dir() and (trouble := _distrust(path)):
        raise BackendError(
            name="CACHE_NOT_OURS", text=f"{trouble}; look at it and remove it by hand", call="clear_cache"
        )
    removed = 0
    for entry in _entries():
        try:
            size = entry.stat().st_size
            entry.unlink()
            removed += size
        except FileNotFoundError:
            continue
        except OSError as error:
            text = f"{error}; make {path} writable, or remove it by hand"
            raise BackendError(name="CACHE_NOT_WRITABLE", text=text, call="clear_cache") from error
    return removed


def read_cubin(name: str, key: str) -> bytes | None:
    """The cubin stored under `key` (hexadecimal), or None when it must be compiled. Modifies nothing."""
    path = cache_path()
    try:
        if not _usable(path):
            return None
        content = _entry(path, name, key).read_bytes()
    except OSError:  # nothing there yet, most of all
        return None
    header, cubin = content[:_HEADER_BYTES], content[_HEADER_BYTES:]
    return cubin if header == _header(key, cubin) else None


def write_cubin(name: str, key: str, cubin: bytes) -> None:
    """Store `cubin` under `key`, or warn once that it cannot be stored. Modifies the cache directory."""
    path = cache_path()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
        if _usable(path):
            _replace(_entry(path, name, key), _header(key, cubin) + cubin)
    except OSError as error:
        _warn(path, f"{error}")


def _replace(target: Path, content: bytes) -> None:
    """Put a file with `content` in place of `target` in one step."""
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=".", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(temporary, target)  # noqa: PTH105 (atomic on every platform, unlike Path.rename)
    except BaseException:
        with suppress(OSError):
            Path(temporary).unlink()
        raise


def _entry(path: Path, name: str, key: str) -> Path:
    return path / f"{name}-{key}.cubin"


def _entries() -> list[Path]:
    """The files that are ours: entries, and what an interrupted writer left."""
    path = cache_path()
    try:
        return sorted([*path.glob("*.cubin"), *path.glob(".*.tmp")])
    except OSError:
        return []


def _header(key: str, cubin: bytes) -> bytes:
    return _MAGIC + hashlib.sha256(key.encode() + b"\0" + cubin).digest()


def _usable(path: Path) -> bool:
    if trouble := _distrust(path):
        _warn(path, trouble)
    return not trouble


def _distrust(path: Path) -> str:
    """Why `path` is not ours alone; empty when it is. Windows keeps a user's directories to that user by itself."""
    if not hasattr(os, "geteuid"):
        return ""
    status = path.stat()
    if status.st_uid != os.geteuid():
        return f"{path} belongs to user {status.st_uid}, this process runs as user {os.geteuid()}"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"{path} can be written by others (mode {stat.S_IMODE(status.st_mode):04o})"
    return ""


def _warn(path: Path, trouble: str) -> None:
    with _lock:
        if path in _warned:
            return
        _warned.add(path)
    warnings.warn(
        f"compiled kernels are not kept on disk: {trouble}; set PAGEDKV_CACHE_DIR to a directory of your own",
        KernelCacheWarning,
        stacklevel=2,
    )


def _platform_cache() -> Path:
    home = Path.home()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    if sys.platform == "darwin":
        return home / "Library" / "Caches"
    # The XDG specification says that a relative path is to be ignored.
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return named if named.is_absolute() else home / ".cache"
