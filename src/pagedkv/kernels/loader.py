"""Kernels compiled at run time: source plus macros become a cubin for one architecture, through NVRTC.

A cubin, never PTX: the driver then needs no compiler of its own, and one older than the toolkit still loads it. What
was compiled is kept on disk (`cubin_cache`), under a key of everything that the cubin depends on.
`cuda.core` and `cuda.bindings` are imported here, inside functions: without a GPU nobody needs them. With a cubin on
disk only NVRTC's version is asked for, which spares the larger import.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from pagedkv.errors import BackendError, InvalidArgumentError
from pagedkv.kernels.cubin_cache import FORMAT, read_cubin, write_cubin

_DIRECTORY = Path(__file__).parent
_STANDARD = "c++17"
_INCLUDE = re.compile(r'^#include "(\w+\.cuh)"$', re.MULTILINE)


def kernel_names() -> list[str]:
    """Every kernel: the name of its file without .cu, and of its entry point."""
    return sorted(path.stem for path in _DIRECTORY.glob("*.cu"))


@cache
def kernel_source(name: str) -> str:
    """The CUDA C++ of the kernel, with what kernels share copied in. Raises InvalidArgumentError for no kernel's name.

    Included here and not by NVRTC: the key of a cubin on disk is the whole source.
    """
    if name not in kernel_names():
        raise InvalidArgumentError(f"there is no kernel {name!r}; there are {', '.join(kernel_names())}")
    source = (_DIRECTORY / f"{name}.cu").read_text(encoding="utf-8")
    return _INCLUDE.sub(lambda found: (_DIRECTORY / found[1]).read_text(encoding="utf-8"), source)


def compile_kernel(name: str, arch: str, macros: Mapping[str, int]) -> bytes:
    """The cubin of kernel `name` for `arch` ("sm_90"), from the disk cache or compiled; its entry point is `name`.

    Raises BackendError with NVRTC's log when it does not compile, or with what is missing. May write the disk cache.
    Needs no GPU and no driver.
    """
    source = kernel_source(name)
    key = cubin_key(source, arch, macros, nvrtc_version())
    cubin = read_cubin(name, key)
    if cubin is None:
        cubin = compile_source(source, f"{name}.cu", arch, macros)
        write_cubin(name, key, cubin)
    return cubin


def cubin_key(source: str, arch: str, macros: Mapping[str, int], version: tuple[int, int]) -> str:
    """The name on disk of what comes out of these inputs, 64 hexadecimal digits; the macros' order does not matter."""
    inputs = [FORMAT, source, _STANDARD, arch, sorted(macros.items()), list(version)]
    return hashlib.sha256(json.dumps(inputs).encode()).hexdigest()


def compile_source(source: str, file_name: str, arch: str, macros: Mapping[str, int]) -> bytes:
    """A cubin compiled from source, without the disk cache. Raises BackendError with NVRTC's log. Modifies nothing."""
    try:
        from cuda.core import Program, ProgramOptions
    except ImportError as error:
        raise _missing("cuda-core", error, "import cuda.core") from None
    defines = [(macro, str(value)) for macro, value in macros.items()]
    try:
        options = ProgramOptions(name=file_name, arch=arch, std=_STANDARD, define_macro=defines or None)
        return bytes(Program(source, "c++", options).compile("cubin").code)
    except Exception as error:  # cuda.core's exception types are private; all of them end here, none is dropped
        what = ", ".join(f"{macro}={value}" for macro, value in macros.items()) or "no macros"
        raise BackendError(
            name=_error_name(error), text=f"{error} (with {what})", call=f"compiling {file_name} for {arch}"
        ) from error


@cache
def nvrtc_version() -> tuple[int, int]:
    """NVRTC's (major, minor). Raises BackendError when it is not there; `pip install 'pagedkv[cuda]'` brings it."""
    try:
        from cuda.bindings import nvrtc
    except ImportError as error:
        raise _missing("cuda-bindings", error, "import cuda.bindings.nvrtc") from None
    try:
        code, major, minor = nvrtc.nvrtcVersion()
    except RuntimeError as error:  # the library cannot be found or loaded
        raise _missing("nvidia-cuda-nvrtc", error, "nvrtcVersion") from None
    if code != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise BackendError(
            name=code.name, text="NVRTC does not tell its version; install it again", call="nvrtcVersion"
        )
    return int(major), int(minor)


def _missing(package: str, error: Exception, call: str) -> BackendError:
    text = f"the Python package {package} is not usable ({error}); pip install 'pagedkv[cuda]'"
    return BackendError(name="NO_COMPILER", text=text, call=call)


def _error_name(error: Exception) -> str:
    """NVRTC's own name of the error where the text holds it ("6: NVRTC_ERROR_COMPILATION, compilation log: ...")."""
    words = str(error).replace(",", " ").split()
    return next((word for word in words if word.startswith("NVRTC_ERROR")), type(error).__name__)
