"""Cases of prefix reuse run twice: as it is, and with every hash equal. The answers must not differ."""

from __future__ import annotations

from functools import partial

import pytest

from .reuse import Make, Reuse


@pytest.fixture(params=[False, True], ids=["hashed", "equal_hashes"])
def make(request: pytest.FixtureRequest) -> Make:
    """Builds caches: make(num_blocks, block_size, **options of the manager)."""
    return partial(Reuse, _constant_hash=request.param)
