"""What ``import pagedkv`` loads: an engine pays for it in every worker process (`benchmarks` says how much)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import pagedkv

# Loaded by the command line, the report or a device, never by the library itself.
HEAVY = ("typer", "click", "rich", "jinja2", "cuda", "torch", "pydantic", "unittest", "asyncio", "multiprocessing")


def _child(code: str) -> str:
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return run.stdout


def test_import_loads_neither_cuda_nor_the_command_line() -> None:
    code = "import sys, numpy; before = set(sys.modules); import pagedkv; print(*sorted(set(sys.modules) - before))"
    loaded = {name.split(".")[0] for name in _child(code).split()}
    assert "pagedkv" in loaded
    assert not loaded & set(HEAVY)


def test_using_a_host_cache_loads_neither_cuda_nor_the_command_line() -> None:
    code = """
import sys, numpy
before = set(sys.modules)
import pagedkv
with pagedkv.open_cache(4096, 16, 4, device="host") as cache:
    cache.register_sequence(1, [1, 2, 3])
    cache.append_tokens(1, 3)
print(*sorted(set(sys.modules) - before))
"""
    loaded = {name.split(".")[0] for name in _child(code).split()}
    assert not loaded & {"typer", "click", "rich", "cuda", "torch"}


def test_public_names_exist_and_are_documented() -> None:
    assert pagedkv.__all__ == sorted(pagedkv.__all__)
    for name in pagedkv.__all__:
        assert getattr(pagedkv, name).__doc__, name


@pytest.mark.parametrize("module", ["_core", "errors", "manager", "stats", "step_plan", "pool", "cache", "layout"])
def test_every_module_can_be_imported_first(module: str) -> None:
    """A cycle between modules would work or fail by the order in which a program imports them."""
    assert _child(f"import pagedkv.{module}; print('imported')") == "imported\n"


def test_the_package_is_typed() -> None:
    package = Path(pagedkv.__file__).parent
    assert (package / "py.typed").exists()
    assert (package / "_core.pyi").exists()
