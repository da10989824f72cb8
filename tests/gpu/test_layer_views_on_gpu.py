"""The tensors of a layer on a GPU: the same bytes in every framework, in stream order, alive while they are held."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pagedkv import DevicePool, KVLayout
from pagedkv.backends.cuda import CudaBackend
from pagedkv.dtypes import DTYPES
from pagedkv.errors import BackendError, InvalidArgumentError

from .children import run_child
from .gate import Gate

pytestmark = pytest.mark.gpu

MIB = 1 << 20
BLOCKS = 5


def bytes_of(pool: DevicePool) -> Any:
    held = pool.read_blocks(range(pool.total_blocks))
    pool.stream.synchronize()
    return held


@pytest.mark.parametrize("order", ["block", "layer"])
@pytest.mark.parametrize("kv_layout", ["NHD", "HND"])
@pytest.mark.parametrize("name", DTYPES)
def test_torch_tensors_are_the_blocks_bytes(torch: Any, name: str, kv_layout: Any, order: Any) -> None:
    """What torch writes through a view is what the same view of a host pool with the same bytes shows."""
    layout = KVLayout(2, 2, 16, name, 4, order=order, kv_layout=kv_layout)
    with (
        DevicePool(layout, BLOCKS, device="cuda:0", scratch_blocks=1) as pool,
        DevicePool(layout, BLOCKS, device="host", scratch_blocks=1) as twin,
    ):
        pool.scrub_blocks(range(BLOCKS + 1))
        for part in ("k", "v", "kv"):
            view, host = getattr(pool.layer(1), part), getattr(twin.layer(1), part)
            tensor = view.torch()
            assert tensor.dtype is getattr(torch, name)
            assert (tuple(tensor.shape), tuple(tensor.stride())) == (view.shape, view.strides)
            assert (tensor.data_ptr(), str(tensor.device)) == (view.address, "cuda:0")
            numbers = torch.arange(tensor.numel(), device="cuda").remainder(7).reshape(tensor.shape)
            tensor.copy_(numbers)
            torch.cuda.synchronize()
            twin.write_blocks(range(BLOCKS + 1), bytes_of(pool))
            expected = numbers.to(tensor.dtype).view(torch.uint8).cpu().numpy().reshape(-1)
            assert np.array_equal(np.ascontiguousarray(host.numpy()).view(np.uint8).reshape(-1), expected)
        assert not twin.layer(0).kv.numpy().any(), "no other layer was touched"  # type: ignore[union-attr]


@pytest.mark.parametrize("name", DTYPES)
def test_cupy_arrays_are_the_blocks_bytes(cupy: Any, name: str) -> None:
    layout = KVLayout(2, 2, 16, name, 4)
    with DevicePool(layout, BLOCKS, device="cuda:0") as pool:
        view = pool.layer(1).k
        for array in (view.cupy(), cupy.asarray(view)):
            assert array.dtype == np.dtype(DTYPES[name].storage)
            assert (array.shape, array.strides, array.data.ptr) == (view.shape, view.byte_strides, view.address)
        pool.scrub_blocks(range(BLOCKS))
        pool.stream.synchronize()
        view.cupy()[2, 3, 1] = 1
        cupy.cuda.Device().synchronize()
        start = layout.token_offset(0, 3, BLOCKS, 1) + 16 * layout.itemsize
        row = np.ones(16, DTYPES[name].storage)
        held = bytes_of(pool)
        assert held[2, start : start + row.nbytes].tobytes() == row.tobytes()
        assert np.count_nonzero(held) == np.count_nonzero(row.view(np.uint8))


def test_jax_takes_compact_layers_in_place(torch: Any) -> None:
    jax = pytest.importorskip("jax")
    if not any(device.platform == "gpu" for device in jax.devices()):
        pytest.skip("this JAX has no GPU")
    with DevicePool(KVLayout(2, 2, 64, "bfloat16", 16, order="layer"), BLOCKS, device="cuda:0") as pool:
        view = pool.layer(1).k
        view.torch().fill_(3)
        torch.cuda.synchronize()
        array = view.jax()
        assert (array.dtype.name, array.shape) == ("bfloat16", view.shape)
        assert array.unsafe_buffer_pointer() == view.address
        assert bool((array == 3).all())
        del array
        with pytest.raises(InvalidArgumentError, match="compact tensors only"):
            pool.layer(0).kv.jax()  # type: ignore[union-attr]


def test_a_view_of_a_gpu_is_none_of_the_host(torch: Any) -> None:
    with DevicePool(KVLayout(1, 2, 16, "float16", 4), BLOCKS, device="cuda:0") as pool:
        view = pool.layer(0).k
        assert view.__dlpack_device__() == (2, 0)
        assert not hasattr(view, "__array_interface__")
        for call in (view.numpy, lambda: np.asarray(view)):
            with pytest.raises(InvalidArgumentError, match="device memory"):
                call()


def test_the_consumers_stream_waits_for_the_pools(torch: Any, new_gate: Callable[[], Gate]) -> None:
    """DLPack's rule: what the pool's stream still has to do is done before the consumer's later work."""
    with DevicePool(KVLayout(1, 2, 16, "float32", 4), BLOCKS, device="cuda:0") as pool:
        view = pool.layer(0).k
        pool.fill_floats([0], [1.0])
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            view.torch().clone()  # kernels loaded and memory had: either may wait for a held device
        torch.cuda.synchronize()
        gate = new_gate()
        gate.hold(pool.stream.__cuda_stream__()[1])  # type: ignore[attr-defined]
        pool.fill_floats(range(BLOCKS), [2.0])
        with torch.cuda.stream(side):
            copied = view.torch().clone()
        assert not side.query(), "it waits for the pool's stream"
        gate.open()
        side.synchronize()
        assert bool((copied == 2).all())


def free_bytes(backend: CudaBackend) -> int:
    gc.collect()
    memory = backend.memory_info()
    assert memory is not None
    return memory.free


def test_memory_goes_back_with_the_last_tensor(torch: Any, backend: CudaBackend) -> None:
    layout = KVLayout(4, 8, 128, "bfloat16", 16)
    with DevicePool(layout, 4, device=backend) as first:  # kernels and small memory of all that follows
        part = first.layer(3).v.torch()[1]  # type: ignore[union-attr]
        part.fill_(1)
        assert bool((part == 1).all())
        del part
    before = free_bytes(backend)
    pool = DevicePool(layout, 2048, device=backend)  # 512 MiB
    tensor = pool.layer(3).v.torch()  # type: ignore[union-attr]
    part = tensor[17]
    pool.close()
    with pytest.raises(BackendError, match="closed"):
        pool.layer(0)
    del pool, tensor
    assert before - free_bytes(backend) >= 500 * MIB
    part.fill_(1)
    assert bool((part == 1).all())
    del part
    assert before - free_bytes(backend) <= 8 * MIB


def test_adopted_memory_stays_with_its_tensors(torch: Any) -> None:
    layout = KVLayout(1, 2, 16, "float16", 4)
    memory = torch.zeros(layout.pool_bytes(BLOCKS), dtype=torch.uint8, device="cuda")
    gone = weakref.ref(memory)
    pool = DevicePool(layout, BLOCKS, device="cuda:0", memory=memory)
    tensor = pool.layer(0).k.torch()
    assert tensor.data_ptr() == memory.data_ptr()
    pool.close()
    del memory, pool
    gc.collect()
    assert gone() is not None
    del tensor
    gc.collect()
    assert gone() is None


TENSOR = """
    import torch
    from pagedkv import DevicePool, KVLayout

    pool = DevicePool(KVLayout(1, 2, 16, "bfloat16", 4), 64, device="cuda:0")
    tensor = pool.layer(0).k.torch()
    tensor.fill_(1)
"""


@pytest.mark.parametrize("last_words", ["", "pool.close()", "del pool", "pool.close(); del tensor"])
def test_an_exit_with_living_tensors_is_clean(last_words: str) -> None:
    pytest.importorskip("torch")
    ended = run_child(f"{TENSOR}\n    {last_words}\n")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_a_lost_device_lets_go_of_tensors_quietly() -> None:
    pytest.importorskip("torch")
    ended = run_child(f"""
    {TENSOR}
    from gpu.launching import enter_context, launch, load
    from pagedkv.errors import BackendError

    torch.cuda.synchronize()
    pool.verify_blocks([0], 0)
    enter_context()
    trap = load('extern "C" __global__ void trap() {{ asm volatile("trap;"); }}', "trap")
    launch(trap, pool.stream.handle)
    try:
        pool.verify_blocks([0], 0)
    except BackendError:
        print("lost")
    try:
        pool.layer(0)
    except BackendError as error:
        print(error.name)
    pool.close()
    del tensor, pool
    print("gone")
    """)
    assert (ended.returncode, ended.stdout) == (0, "lost\nPOOL_LOST\ngone\n"), ended.stderr
