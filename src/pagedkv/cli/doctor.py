"""`pagedkv doctor`: what is installed, what is missing for a GPU, and what to do about it."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from importlib.util import find_spec
from pathlib import Path

CUDA_PARTS = (("cuda.core", ("cuda-core",)), ("cuda.bindings", ("cuda-bindings",)))
NVRTC_DISTRIBUTIONS = ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12")
DRIVER_LIBRARIES = ("nvcuda.dll",) if sys.platform == "win32" else ("libcuda.so.1", "libcuda.so")


def doctor() -> None:
    """Show versions, the native core, and which CUDA parts are there. A machine without a GPU is no error."""
    from pagedkv.report.document import package_version

    print("pagedkv doctor")
    for name in ("pagedkv", "numpy", "typer", "rich"):
        _say(name, package_version(name) or "not installed")
    _say("python", f"{platform.python_version()} ({sys.executable})")
    _say("platform", f"{platform.platform()}, {os.cpu_count()} CPUs")
    print()
    core = _native_core()
    print()
    _cuda()
    print()
    print("PASS: the CPU part works" if core else "FAIL: the native core does not work")
    if not core:
        import typer

        raise typer.Exit(1)


def _say(name: str, value: str) -> None:
    print(f"  {name + ':':<16} {value}")


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
    from pagedkv.report.document import package_version

    missing = []
    for module, distributions in CUDA_PARTS:
        found = _module_exists(module) and next(filter(None, map(package_version, distributions)), "version unknown")
        _say(module, found or "not installed")
        if not found:
            missing.append(module)
    nvrtc = [f"{name} {version}" for name in NVRTC_DISTRIBUTIONS if (version := package_version(name))]
    _say("NVRTC", ", ".join(nvrtc) or "not installed as a package")
    driver = _driver()
    _say("CUDA driver", driver or "not found")
    if driver is None:
        print("  note: no NVIDIA driver on this machine; everything but device 'cuda:N' works without one")
    elif missing or not nvrtc:
        print("  note: for the GPU, install the CUDA extra: pip install 'pagedkv[cuda]' (or 'pagedkv[cuda12]')")
    print("  note: devices are 'host', 'null' and, with the cuda extra and a driver, 'cuda:N'")


def _module_exists(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # the parent package is missing
        return False


def _driver() -> str | None:
    """Ask the driver library for its version and devices; None if there is no library."""
    for name in DRIVER_LIBRARIES:
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        version, devices = ctypes.c_int(0), ctypes.c_int(0)
        if library.cuDriverGetVersion(ctypes.byref(version)) != 0:
            return f"{name}, which does not answer"
        text = f"{name}, CUDA {version.value // 1000}.{version.value % 1000 // 10}"
        status = library.cuInit(0)
        if status != 0 or library.cuDeviceGetCount(ctypes.byref(devices)) != 0:
            return f"{text}, no usable device (cuInit gave {status})"
        return f"{text}, {devices.value} devices"
    return None
