"""Scattered block copies prepared on the device: a filled pool, pairs in random order, the launch alone."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from benchmarks.gpu.device import call, enter_context
from pagedkv import DevicePool, OpaqueLayout
from pagedkv.backends.cuda_launch import POINTER, U32, U64
from pagedkv.kernels.launch_shapes import copy_shape

Pairs = npt.NDArray[np.int32]


class Scattered:
    """A pool full of patterns; `tags` says which pattern each block holds after the copies so far."""

    def __init__(self, block_bytes: int, pool_bytes: int, seed: int) -> None:
        enter_context()
        layout = OpaqueLayout(block_bytes // 16, 16)
        self.pool = DevicePool(layout, pool_bytes // block_bytes, device="cuda:0")
        self.tags = np.arange(self.pool.num_blocks, dtype=np.int64)
        self.random = np.random.default_rng(seed)
        self._buffers: list[object] = []
        self.pool.fill_blocks(self.tags, self.tags)
        self.pool.stream.synchronize()

    def pairs(self, count: int) -> Pairs:
        """`count` sources and as many destinations, all different, from the whole pool in random order."""
        chosen = self.random.permutation(self.pool.num_blocks)[: 2 * count]
        return np.ascontiguousarray(chosen.reshape(2, count).T, np.int32)

    def launcher(self, pairs: Pairs) -> Callable[[], None]:
        """Upload the pairs now; what comes back puts the copy's launch, and nothing else, on the pool's stream."""
        pool = self.pool
        block_bytes, count = pool.layout.block_bytes, len(pairs)
        device = pool.backend.allocate(pairs.nbytes)
        self._buffers.append(device)
        pool.backend.upload(device, 0, pairs.reshape(-1).view(np.uint8), pool.stream)
        pool.stream.synchronize()
        shape = copy_shape(block_bytes, count)
        store = pool.backend.kernels.store  # type: ignore[attr-defined]
        kernel = store.get("copy_blocks", (POINTER, POINTER, U64, U32, U32), **shape.macros)
        arguments = (pool.base, device.address, block_bytes, shape.chunks_per_block, count)

        def launch() -> None:
            kernel.launch(shape.grid, shape.threads, pool.stream, *arguments)

        return launch

    def note(self, pairs: Pairs) -> None:
        """These pairs were copied."""
        self.tags[pairs[:, 1]] = self.tags[pairs[:, 0]]

    def close(self) -> None:
        """Check every block of the pool, then free it. Raises RuntimeError if a copy went wrong."""
        wrong = self.pool.verify_blocks(np.arange(self.pool.num_blocks), self.tags)
        for buffer in self._buffers:
            self.pool.backend.free(buffer)  # type: ignore[arg-type]
        self.pool.close()
        if wrong:
            raise RuntimeError(f"{wrong} blocks do not hold what was copied: the times mean nothing")


def device_copy(target: int, source: int, nbytes: int, stream: int) -> None:
    """The driver's own device-to-device copy."""
    call("cuMemcpyDtoDAsync", target, source, nbytes, stream)
