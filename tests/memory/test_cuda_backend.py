"""The CUDA backend conforms."""

from __future__ import annotations

import pytest

from pagedkv.backends import Backend

from .byte_conformance import ByteConformance


@pytest.mark.gpu
class TestCudaBackend(ByteConformance):
    @pytest.fixture
    def backend(self) -> Backend:
        from pagedkv.backends.cuda import open_cuda

        return open_cuda(0)

    def adoptable(self, nbytes: int) -> object:
        torch = pytest.importorskip("torch")
        zeros = torch.zeros(nbytes, dtype=torch.uint8, device="cuda")
        torch.cuda.synchronize()  # it fills on a stream of its own, and could do so behind our first write
        return zeros
