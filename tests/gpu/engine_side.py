"""What an engine has on its side: tensors, and wrappers that offer one protocol and hide the others."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pagedkv import DevicePool, OpaqueLayout


class DlpackOnly:
    """Memory of a library that shares it by DLPack and nothing else."""

    def __init__(self, held: Any) -> None:
        self._held = held

    def __dlpack__(self, **options: Any) -> Any:
        return self._held.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._held.__dlpack_device__()


class InterfaceOnly:
    """Memory of a library that shares it by `__cuda_array_interface__` and nothing else."""

    def __init__(self, held: Any) -> None:
        self._held = held
        self.__cuda_array_interface__ = held.__cuda_array_interface__


class StreamProtocol:
    """A stream that says nothing but its handle."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, self._handle)


class Peek:
    """Copies device memory to the host on its own stream: it sees what is there now, behind no other work."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._stream = torch.cuda.Stream()
        self._pinned = torch.empty(1 << 16, dtype=torch.uint8, pin_memory=True)

    def __call__(self, memory: Any, start: int, nbytes: int) -> bytes:
        target = self._pinned[:nbytes]
        with self._torch.cuda.stream(self._stream):
            target.copy_(memory[start : start + nbytes], non_blocking=True)
        self._stream.synchronize()
        return bytes(target.numpy().tobytes())


def random_memory(torch: Any, nbytes: int, seed: int = 1) -> Any:
    """uint8 [nbytes] of random bytes on the GPU, finished."""
    generator = torch.Generator(device="cuda").manual_seed(seed)
    memory = torch.empty(nbytes, dtype=torch.uint8, device="cuda")
    # By pieces: the generator's kernels index with 32 bits.
    for start in range(0, nbytes, 1 << 30):
        memory[start : start + (1 << 30)].random_(0, 256, generator=generator)
    torch.cuda.synchronize()
    return memory


def adopted_pool(torch: Any, layout: OpaqueLayout, blocks: int, **options: Any) -> tuple[DevicePool, Any]:
    """A pool in a tensor of random bytes, and the tensor (uint8, flat)."""
    memory = random_memory(torch, layout.pool_bytes(blocks + options.get("scratch_blocks", 0)))
    return DevicePool(layout, blocks, device="cuda:0", memory=memory, **options), memory


def on_gpu(torch: Any, values: Any, dtype: str) -> Any:
    """A tensor of these values, finished."""
    tensor = torch.as_tensor(np.asarray(values, dtype), device="cuda")
    torch.cuda.synchronize()
    return tensor


def block_of(memory: Any, layout: OpaqueLayout, block: int) -> npt.NDArray[np.uint8]:
    """The bytes of a block, read by torch; the pool's stream must have been waited for."""
    start = block * layout.block_bytes
    result: npt.NDArray[np.uint8] = memory[start : start + layout.block_bytes].cpu().numpy()
    return result
