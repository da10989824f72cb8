"""Kernels compiled by g++ under AddressSanitizer and UBSan (native/kernels_on_host), launched on NumPy arrays."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pagedkv.kernels.loader import kernel_source

_SHIM = Path(__file__).parents[2] / "native" / "kernels_on_host"
_FLAGS = ["-std=c++20", "-O1", "-g1", "-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas", "-fno-omit-frame-pointer"]
_FLAGS += ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fsanitize-sections=cta_shared"]

COMPILER = shutil.which(os.environ.get("CXX", "g++"))
Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Shifted:
    """An array that starts `offset` bytes into its allocation, so that it is aligned no better than that."""

    array: Array
    offset: int


@dataclass(frozen=True, slots=True)
class Sparse:
    """`size` bytes of addresses with arrays at some offsets and no memory elsewhere."""

    size: int
    pieces: Mapping[int, Array]


Argument = int | Array | Shifted | Sparse | None


class KernelFaultError(Exception):
    """The sanitizers, the barrier check or the operating system stopped a kernel; the text is the report."""


class HostKernels:
    """Builds each kernel variant once and launches it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._runner: list[Path] = []

    def build(self, source: str, name: str, macros: Mapping[str, int]) -> Path:
        """An executable of the kernel `name` in `source`."""
        target = self._folder / "-".join([name, *map(str, macros.values()), f"{hash(source):x}"])
        if not target.exists():
            file = target.with_suffix(".cu")
            file.write_text(source)
            unit = [f"-D{macro}={value}" for macro, value in macros.items()]
            unit += [f"-DPAGEDKV_KERNEL={name}", f'-DPAGEDKV_KERNEL_FILE="{file}"', str(_SHIM / "kernel_unit.cpp")]
            _compile(*unit, *map(str, self._runner_objects()), "-o", str(target))
        return target

    def launch(
        self,
        kernel: str | Path,
        macros: Mapping[str, int],
        grid: Sequence[int],
        threads: int,
        arguments: Sequence[Argument],
        *,
        reverse: bool = False,
    ) -> None:
        """Run a kernel (its name, or an executable of `build`); what it writes is in the arrays afterwards.

        Raises KernelFaultError. `reverse` runs the last thread first.
        """
        program = self.build(kernel_source(kernel), kernel, macros) if isinstance(kernel, str) else kernel
        files = _Files(self._folder)
        words = [files.word(argument) for argument in arguments]
        order = "reversed" if reverse else "forward"
        command = [str(program), str(grid[0]), str(grid[1]), str(threads), order, *words]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        if done.returncode != 0:
            raise KernelFaultError(done.stderr or f"ended with {done.returncode}")
        files.read_back()

    def _runner_objects(self) -> list[Path]:
        if not self._runner:
            for source in ("main.cpp", "arguments.cpp", "cta_runner.cpp"):
                target = self._folder / f"{source}.o"
                _compile("-c", str(_SHIM / source), "-o", str(target))
                self._runner.append(target)
        return self._runner


class _Files:
    """Arrays on their way to the program and back."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._arrays: list[tuple[Path, Array]] = []

    def word(self, argument: Argument) -> str:
        if argument is None:
            return "null"
        if isinstance(argument, int):
            return f"int={argument}"
        if isinstance(argument, Sparse):
            pieces = [f"{offset}:{self._write(array)}" for offset, array in argument.pieces.items()]
            return ":".join([f"sparse={argument.size}", *pieces])
        shifted = argument if isinstance(argument, Shifted) else Shifted(argument, 0)
        return f"buffer={shifted.offset}:{self._write(shifted.array)}"

    def _write(self, array: Array) -> Path:
        path = self._folder / f"array-{len(self._arrays)}"
        array.tofile(path)
        self._arrays.append((path, array))
        return path

    def read_back(self) -> None:
        for path, array in self._arrays:
            array[...] = np.fromfile(path, array.dtype).reshape(array.shape)


def _compile(*words: str) -> None:
    done = subprocess.run([str(COMPILER), *_FLAGS, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
