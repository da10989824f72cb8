"""What every test shares: the hypothesis profiles, the ``gpu`` marker, and where data lies that is not ours."""

from __future__ import annotations

import ctypes
import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

_SLOW_START = (HealthCheck.too_slow, HealthCheck.data_too_large)

settings.register_profile("dev", max_examples=60, stateful_step_count=40, deadline=None, print_blob=True)
# ci must not fail on one run and pass on the next for the same commit, so it draws the same examples every time.
settings.register_profile(
    "ci",
    max_examples=150,
    stateful_step_count=50,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=_SLOW_START,
)
settings.register_profile(
    "nightly",
    max_examples=5000,
    stateful_step_count=120,
    deadline=None,
    print_blob=True,
    suppress_health_check=_SLOW_START,
)
settings.load_profile(os.environ.get("PAGEDKV_HYPOTHESIS_PROFILE", "dev"))


@pytest.fixture(scope="session")
def traces() -> Path:
    """The folder of real traces and of the shared bad files; they are no part of the repository."""
    return _folder("PAGEDKV_TRACE_DIR")


@pytest.fixture(scope="session")
def oracle() -> dict[str, Any]:
    """The exact values, by section; they are no part of the repository."""
    values: dict[str, Any] = json.loads((_folder("PAGEDKV_ORACLE_DIR") / "values.json").read_text())
    return values


def _folder(variable: str) -> Path:
    folder = os.environ.get(variable)
    if not folder:
        pytest.skip(f"{variable} is not set: the data of this test is no part of the repository")
    return Path(folder)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--gpu",
        action="store_true",
        help="run the gpu tests even if no GPU is found, so that a broken driver fails instead of being skipped",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "gpu: needs a CUDA device; skipped without one unless --gpu is given")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    marked = [item for item in items if item.get_closest_marker("gpu") is not None]
    if not marked or config.getoption("--gpu") or _cuda_device_count() > 0:
        return
    skip = pytest.mark.skip(reason="no CUDA device; --gpu runs it anyway")
    for item in marked:
        item.add_marker(skip)


@cache
def _cuda_device_count() -> int:
    """Ask the driver itself: a runtime library may be installed where there is no GPU, and the other way round."""
    for name in ("libcuda.so.1", "nvcuda.dll"):
        try:
            driver = ctypes.CDLL(name)
        except OSError:
            continue
        count = ctypes.c_int(0)
        if driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0:
            return count.value
    return 0
