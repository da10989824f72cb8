"""PyTorch and CuPy as the engines around us, gates, and a backend."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pagedkv import DevicePool, OpaqueLayout
from pagedkv.backends.cuda import CudaBackend

from .engine_side import Peek
from .gate import Gate


@pytest.fixture(scope="session")
def torch() -> Any:
    module = pytest.importorskip("torch")
    module.zeros(1, device="cuda")  # its context is there, and current
    return module


@pytest.fixture(scope="session")
def cupy() -> Any:
    module = pytest.importorskip("cupy")
    module.zeros(1)
    return module


@pytest.fixture
def backend() -> CudaBackend:
    from pagedkv.backends.cuda import open_cuda

    return open_cuda(0)


@pytest.fixture
def new_gate() -> Iterator[Callable[[], Gate]]:
    """Makes gates; at the end all are opened, and freed once the device is idle."""
    gates: list[Gate] = []

    def make() -> Gate:
        gates.append(Gate())
        return gates[-1]

    yield make
    for gate in gates:
        gate.release()


@pytest.fixture
def peek(torch: Any) -> Peek:
    """Reads device memory on a stream of its own, which waits for nobody."""
    return Peek(torch)


@pytest.fixture
def warm(backend: CudaBackend) -> Callable[[OpaqueLayout], None]:
    """Every kernel of a layout loaded: loading one may wait for the device, which a held stream would never end."""

    def warm(layout: OpaqueLayout) -> None:
        with DevicePool(layout, 4, device=backend) as pool:
            pool.fill_blocks([0], 1)
            pool.verify_blocks([0], 1)
            pool.fill_tokens(1, [0], [0])
            pool.verify_tokens(1, [0], [0])
            pool.copy_blocks([(0, 1)])
            pool.stream.synchronize()

    return warm
