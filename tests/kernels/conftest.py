"""The host build of the kernels, one for the whole run, and a disk cache that no test shares with another."""

from __future__ import annotations

from pathlib import Path

import pytest

from pagedkv.kernels import cubin_cache

from .host_build import COMPILER, HostKernels


@pytest.fixture(scope="session")
def host_kernels(tmp_path_factory: pytest.TempPathFactory) -> HostKernels:
    if COMPILER is None:
        pytest.skip("no C++ compiler (g++, or what CXX names) to build kernels for the host")
    return HostKernels(tmp_path_factory.mktemp("kernels_on_host"))


@pytest.fixture(params=[False, True], ids=["forward", "reversed"])
def reverse(request: pytest.FixtureRequest) -> bool:
    """Whether the last thread runs first: results must not depend on it."""
    return bool(request.param)


@pytest.fixture(autouse=True)
def cache_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where this test's disk cache is; warnings that were given once are given again."""
    root = tmp_path / "cache"
    monkeypatch.setenv("PAGEDKV_CACHE_DIR", str(root))
    monkeypatch.setattr(cubin_cache, "_warned", set())
    return root
