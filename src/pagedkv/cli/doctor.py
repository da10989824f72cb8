"""`pagedkv doctor`: what is installed, what is missing for a GPU, and what to do about it."""

from __future__ import annotations

import os
import platform
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from pagedkv.cli.doctor_driver import Gpu

T = TypeVar("T")


def doctor() -> None:
    """Show versions, the native core, and which CUDA parts are there. A machine without a GPU is no error."""
    from pagedkv.report.document import package_version

    print("pagedkv doctor")
    for name in ("pagedkv", "numpy", "typer", "rich"):
        _say(name, package_version(name) or "not installed")
    _say("python", f"{platform.python_version()} ({sys.executable})")
    _say("platform", f"{platform.platform()}, {os.cpu_count()} CPUs")
    print()
    core = _probe("native core", _native_core, False)
    print()
    _cuda()
    print()
    print("PASS: the CPU part works" if core else "FAIL: the native core does not work")
    if not core:
        import typer

        raise typer.Exit(1)


def _say(name: str, value: str) -> None:
    print(f"  {name + ':':<16} {value}")


def _probe(name: str, ask: Callable[[], T], otherwise: T) -> T:
    """What `ask` says; `otherwise`, and a line, if it raises. A doctor that dies of a finding is of no use."""
    try:
        return ask()
    except Exception as error:
        _say(name, f"could not be asked: {type(error).__name__}: {error}")
        return otherwise


def _native_core() -> bool:
    """Use the core once; an import alone does not show that it runs on this CPU."""
    from pagedkv import _core
    from pagedkv.backends import open_backend
    from pagedkv.manager import KVCacheManager

    manager = KVCacheManager(4, 16)
    manager.admit(1, (), reserve=33)
    manager.append([1], [33])
    manager.check()
    works = manager.get_stats().allocated_blocks == 3
    _say("native core", f"{Path(_core.__file__ or '').name}: {'works' if works else 'gives wrong results'}")
    host = open_backend("host")
    memory = host.memory_info()
    size = "memory unknown" if memory is None else f"{memory.free / 2**30:.1f} of {memory.total / 2**30:.1f} GiB free"
    _say("host device", f"{host.device_name}, {size}")
    _say("null device", "addresses without bytes, for planning")
    return works


def _cuda() -> None:
    from pagedkv.cli.doctor_advice import find_problems
    from pagedkv.cli.doctor_driver import DriverFacts, ask_driver
    from pagedkv.cli.doctor_packages import PackageFacts, ask_packages

    packages = _probe("CUDA packages", ask_packages, PackageFacts())
    _say("cuda-core", packages.core or "not installed")
    _say("cuda-bindings", packages.bindings or "not installed")
    compiler = "" if packages.compiler is None else " (CUDA {}.{})".format(*packages.compiler)
    _say("NVRTC", (packages.nvrtc or "not installed as a package") + compiler)
    _probe("kernel cache", _kernel_cache, None)
    driver = _probe("CUDA driver", ask_driver, DriverFacts())
    supported = "" if driver.cuda is None else ", supports CUDA {}.{}".format(*driver.cuda)
    number = driver.version or "of unknown version"
    _say("CUDA driver", "not found" if driver.library is None else f"{number} ({driver.library}){supported}")
    for gpu in driver.gpus:
        _say(f"GPU {gpu.ordinal}", _in_words(gpu))
    problems = find_problems(driver, packages)
    for problem in problems:
        print(f"  problem: {' '.join(problem.what.split())}")  # a library's own message may have lines
        print(f"     mend: {problem.mend}")
    if not driver.gpus:
        print("  note: no GPU can be used here; everything but device 'cuda:N' works without one")
    elif not problems:
        print("  note: the GPU part is complete; 'pagedkv selftest' proves that it works")


def _in_words(gpu: Gpu) -> str:
    free = "free memory unknown" if gpu.free_bytes is None else f"{gpu.free_bytes // 2**20:,} MB free"
    capability = "{}.{}".format(*gpu.capability)
    return f"{gpu.name}, {gpu.total_bytes // 2**20:,} MB VRAM, {free}, compute capability {capability}"


def _kernel_cache() -> None:
    from pagedkv.kernels.cubin_cache import cache_path, cache_size, read_cubin

    _say("kernel cache", f"{cache_path()}, {cache_size():,} bytes")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        read_cubin("doctor", "0")  # there is none; a folder that is not used is warned of
    for warning in caught:
        what, _, mend = str(warning.message).rpartition("; ")
        print(f"  problem: {what}\n     mend: {mend}")
