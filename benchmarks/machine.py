"""Where the figures were taken: processor, system, versions, compiler, commit. Every fact has a fallback."""

import importlib.util
import os
import platform
import re
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def cpu_model() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or platform.machine()
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return found.group(1) if found else platform.machine()


def describe_machine() -> dict[str, str | int]:
    return {
        "cpu": cpu_model(),
        "cores": os.cpu_count() or 0,
        "architecture": platform.machine(),
        "os": distribution(),
        "kernel": ".".join(platform.release().split(".")[:2]),
    }


def distribution() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.platform()


def load_average() -> list[float] | None:
    """One, five and fifteen minutes; None where the system keeps none (Windows)."""
    return list(os.getloadavg()) if hasattr(os, "getloadavg") else None


def describe_versions() -> dict[str, str]:
    python = f"{platform.python_implementation()} {platform.python_version()} ({platform.python_compiler()})"
    versions = {"python": python}
    for package in ("numpy", "pagedkv"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "not installed as a package"
    compiler = extension_compiler()
    if compiler:
        versions["compiler"] = compiler
    return versions


def extension_compiler() -> str | None:
    """The compiler's own mark in the native module (`.comment` of ELF files); None where it leaves none."""
    module = importlib.util.find_spec("pagedkv._core")
    if module is None or module.origin is None:
        return None
    marks = set(re.findall(rb"(?:GCC: \([^)\0]*\) [\d.]+|clang version [\d.]+)", Path(module.origin).read_bytes()))
    return ", ".join(sorted(mark.decode() for mark in marks)) or None


def git_commit() -> str | None:
    """Short hash, with `-dirty` where tracked files differ from it; None outside a checkout."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
