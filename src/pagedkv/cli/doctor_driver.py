"""What the NVIDIA driver says: asked through its C interface, so that it works without any Python package.

Nothing here raises for what it finds. cuDriverGetVersion works without a device; cuInit's status tells why there is
none. Free memory needs a context, which is taken and given back.
"""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

LIBRARIES = ("nvcuda.dll",) if sys.platform == "win32" else ("libcuda.so.1", "libcuda.so")
MANAGEMENT = ("nvml.dll",) if sys.platform == "win32" else ("libnvidia-ml.so.1",)
_MAJOR, _MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_...
Library: TypeAlias = ctypes.CDLL


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU; bytes; free_bytes is None where the driver refused, with its status in `trouble`."""

    ordinal: int
    name: str
    total_bytes: int
    free_bytes: int | None
    capability: tuple[int, int]
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class DriverFacts:
    """library: its file, None without one; cuda: the CUDA version that it supports; status: cuInit's, 0 is good."""

    library: str | None = None
    version: str | None = None
    cuda: tuple[int, int] | None = None
    status: int = 0
    gpus: tuple[Gpu, ...] = ()


def ask_driver() -> DriverFacts:
    """Load the driver and ask. Modifies nothing that stays."""
    name, library = _load(LIBRARIES)
    if library is None:
        return DriverFacts(version=_driver_version())
    number, count = ctypes.c_int(0), ctypes.c_int(0)
    cuda = None
    if library.cuDriverGetVersion(ctypes.byref(number)) == 0 and number.value:
        cuda = (number.value // 1000, number.value % 1000 // 10)
    status = int(library.cuInit(0)) or int(library.cuDeviceGetCount(ctypes.byref(count)))
    gpus = () if status else tuple(_gpu(library, ordinal) for ordinal in range(count.value))
    return DriverFacts(name, _driver_version(), cuda, status, gpus)


def error_name(status: int) -> str:
    """The driver's name of a status, or its number."""
    _, library = _load(LIBRARIES)
    text = ctypes.c_char_p()
    if library is None or library.cuGetErrorName(status, ctypes.byref(text)) != 0 or not text.value:
        return f"CUDA error {status}"
    return text.value.decode(errors="replace")


def _load(names: tuple[str, ...]) -> tuple[str | None, Library | None]:
    for name in names:
        try:
            return name, ctypes.CDLL(name)
        except OSError:
            continue
    return None, None


def _gpu(library: Library, ordinal: int) -> Gpu:
    device, total = ctypes.c_int(0), ctypes.c_size_t(0)
    name = ctypes.create_string_buffer(256)
    capability = [ctypes.c_int(0), ctypes.c_int(0)]
    status = (
        library.cuDeviceGet(ctypes.byref(device), ordinal)
        or library.cuDeviceGetName(name, len(name), device)
        or library.cuDeviceTotalMem_v2(ctypes.byref(total), device)
        or library.cuDeviceGetAttribute(ctypes.byref(capability[0]), _MAJOR, device)
        or library.cuDeviceGetAttribute(ctypes.byref(capability[1]), _MINOR, device)
    )
    free, trouble = (None, error_name(status)) if status else _free_memory(library, device)
    numbers = (capability[0].value, capability[1].value)
    return Gpu(ordinal, name.value.decode(errors="replace") or "unknown", total.value, free, numbers, trouble)


def _free_memory(library: Library, device: ctypes.c_int) -> tuple[int | None, str]:
    context, free, total = ctypes.c_void_p(), ctypes.c_size_t(0), ctypes.c_size_t(0)
    if status := library.cuDevicePrimaryCtxRetain(ctypes.byref(context), device):
        return None, error_name(status)
    try:
        if status := library.cuCtxPushCurrent_v2(context):
            return None, error_name(status)
        status = library.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
        library.cuCtxPopCurrent_v2(ctypes.byref(context))
        return (None, error_name(status)) if status else (free.value, "")
    finally:
        library.cuDevicePrimaryCtxRelease_v2(device)


def _driver_version() -> str | None:
    """The driver's own number ("580.95.05"), from the management library, else from the kernel module's file."""
    _, library = _load(MANAGEMENT)
    text = ctypes.create_string_buffer(96)
    if library is not None and library.nvmlInit_v2() == 0:
        status = library.nvmlSystemGetDriverVersion(text, len(text))
        library.nvmlShutdown()
        if status == 0:
            return text.value.decode(errors="replace")
    try:
        words = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8", errors="replace").split()
    except OSError:
        return None
    return next((word for word in words if word[:1].isdigit() and "." in word), None)
