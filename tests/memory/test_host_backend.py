"""The host backend conforms, eager and stepped."""

from __future__ import annotations

import numpy as np
import pytest

from pagedkv.backends import Backend
from pagedkv.backends.host import HostBackend

from .byte_conformance import ByteConformance


@pytest.mark.parametrize("stepped", [False, True], ids=["eager", "stepped"])
class TestHostBackend(ByteConformance):
    @pytest.fixture
    def backend(self, stepped: bool) -> Backend:
        return HostBackend(stepped=stepped)

    def adoptable(self, nbytes: int) -> object:
        return np.zeros(nbytes, np.uint8)
