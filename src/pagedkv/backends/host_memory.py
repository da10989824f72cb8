"""How much memory this machine has, from whatever its system offers; None where nothing does."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

from pagedkv.backends import MemoryInfo


def memory_info() -> MemoryInfo | None:
    """Free and total bytes of main memory, or None when this system does not say. Reads only."""
    if sys.platform == "win32":
        return _windows()
    return _proc_meminfo() or _sysconf()


def _proc_meminfo() -> MemoryInfo | None:
    # MemAvailable counts the caches that Linux would give up; SC_AVPHYS_PAGES does not, and reads far too
    # low.
    try:
        with Path("/proc/meminfo").open(encoding="ascii") as lines:
            kib = {name: int(rest.split()[0]) for name, rest in (line.split(":", 1) for line in lines)}
        return MemoryInfo(free=kib["MemAvailable"] * 1024, total=kib["MemTotal"] * 1024)
    except (OSError, KeyError, ValueError, IndexError):
        return None


def _sysconf() -> MemoryInfo | None:
    # macOS knows the total only; the total then stands for what could be had.
    try:
        page, total = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
    try:
        free = os.sysconf("SC_AVPHYS_PAGES")
    except (ValueError, OSError):
        free = total
    return MemoryInfo(free=free * page, total=total * page) if page > 0 and total > 0 else None


class _MemoryStatus(ctypes.Structure):
    """MEMORYSTATUSEX of the Windows API."""

    _fields_ = (
        ("length", ctypes.c_uint32),
        ("load", ctypes.c_uint32),
        ("total", ctypes.c_uint64),
        ("free", ctypes.c_uint64),
        ("rest", ctypes.c_uint64 * 5),
    )


def _windows() -> MemoryInfo | None:
    status = _MemoryStatus()
    status.length = ctypes.sizeof(status)
    windows = getattr(ctypes, "windll", None)
    if windows is None or not windows.kernel32.GlobalMemoryStatusEx(ctypes.byref(status)):
        return None
    return MemoryInfo(free=int(status.free), total=int(status.total))
