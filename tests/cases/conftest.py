"""Cases of prefix reuse run twice: as it is, and with every hash equal. The answers must not differ."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest

from .reuse import Make, Reuse


@pytest.fixture(params=[False, True], ids=["hashed", "equal_hashes"])
def make(request: pytest.FixtureRequest) -> Make:
    """Builds caches: make(num_blocks, block_size, **options of the manager)."""
    return partial(Reuse, _constant_hash=request.param)


@pytest.fixture
def traces() -> Path:
    """The folder of real traces and of the shared bad files; they are no part of the repository."""
    folder = os.environ.get("PAGEDKV_TRACE_DIR")
    if not folder:
        pytest.skip("PAGEDKV_TRACE_DIR is not set: the data of this test is no part of the repository")
    return Path(folder)
