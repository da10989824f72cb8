"""Keys and values written and gathered on a GPU, against the host's pool with the same bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pagedkv import DevicePool, InvalidArgumentError, KVLayout
from pagedkv.dtypes import COMPUTE_DTYPES, DTYPES

from .engine_side import InterfaceOnly, adopted_pool, on_gpu
from .kv_twins import Twins, same_numbers, to_numpy, to_torch

pytestmark = pytest.mark.gpu


def _random_layout(random: np.random.Generator, dtype: str) -> KVLayout:
    dims = [int(random.choice([1, 3, 8, 20, 64, 80, 128])) for _ in range(2)]
    scales = DTYPES[dtype].itemsize == 1 and bool(random.integers(2))
    return KVLayout(
        int(random.integers(1, 4)),
        int(random.choice([1, 2, 3, 8])),
        dims[0],
        dtype,
        int(random.choice([4, 8, 12, 16, 64])),
        order=random.choice(["block", "layer"]),
        kv_layout=random.choice(["NHD", "HND"]),
        v_head_dim=int(random.choice([dims[0], dims[1], 0])),
        scales=scales,
    )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("given", COMPUTE_DTYPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_random_layouts_hold_what_the_host_s_hold(torch: Any, dtype: str, given: str, seed: int) -> None:
    random = np.random.default_rng([seed, DTYPES[dtype].number, DTYPES[given].number])
    twins = Twins(torch, _random_layout(random, dtype), int(random.integers(3, 9)))
    layer = int(random.integers(twins.layout.num_layers))
    scales = (1.0, 1.0)
    if DTYPES[dtype].itemsize == 1 and not twins.layout.scales:
        scales = (float(random.uniform(0.1, 9)), 0.7)
    tokens = int(random.integers(1, twins.slots + 1))
    slots = random.permutation(twins.slots)[:tokens]
    slots[random.random(tokens) < 0.2] = -1
    host, gpu, _ = twins.tensors(given, tokens, random, gap=int(random.integers(0, 5)))

    on_device = on_gpu(torch, slots, "int64")
    twins.host.write_kv(layer, *host, slots, scales=scales)
    twins.gpu.write_kv(layer, *gpu, on_device if seed % 2 else slots.tolist(), scales=scales)
    twins.check()

    host_out, gpu_out, whole = twins.tensors(given, tokens, random, gap=int(random.integers(0, 5)))
    before = whole.clone()
    torch.cuda.synchronize()
    twins.host.gather_kv(layer, slots, *host_out, scales=scales)
    twins.gpu.gather_kv(layer, slots.tolist() if seed % 2 else on_device, *gpu_out, scales=scales)
    twins.check()
    for wanted, found in zip(host_out, gpu_out, strict=True):
        if wanted is not None:
            same_numbers(to_numpy(torch, found, given), np.ascontiguousarray(wanted))
            found.copy_(before.as_strided(found.shape, found.stride(), found.storage_offset()))
    # What lies between the heads is nobody's.
    assert torch.equal(before.view(torch.uint8), whole.view(torch.uint8))
    twins.close()


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_processor_rounds_as_numpy_does(torch: Any, dtype: str) -> None:
    """Float32 of any bits, and every code of the 16-bit formats, into each format; every bit of it back."""
    random = np.random.default_rng(7)
    layout = KVLayout(1, 4, 64, dtype, 16)
    twins = Twins(torch, layout, 128)
    slots = np.arange(2048)
    for given in COMPUTE_DTYPES:
        kind = DTYPES[given]
        if kind.itemsize == 2:
            codes = np.resize(np.arange(1 << 16).astype(np.uint16), 2 * 2048 * 256)
        else:
            codes = random.integers(0, 1 << 32, 2 * 2048 * 256, np.uint32)
            usual = random.normal(0, 100, len(codes[::3])) * 2.0 ** random.integers(-16, 8)
            codes[::3] = usual.astype(np.float32).view(np.uint32)
        k, v = codes.view(kind.storage).reshape(2, 2048, 4, 64)
        scales = (0.75, 1.5) if layout.element.itemsize == 1 else (1.0, 1.0)
        twins.host.write_kv(0, k, v, slots, scales=scales)
        twins.gpu.write_kv(0, to_torch(torch, k, given), to_torch(torch, v, given), slots, scales=scales)
        twins.check()
        if given == "float32":  # any bits back, not only those that were written
            twins.memory.random_(0, 256)
            torch.cuda.synchronize()
            twins.host.backend.host_view(twins.host._buffer)[:] = twins.memory.cpu().numpy()
        wanted = [np.empty_like(k), np.empty_like(v)]
        found = [to_torch(torch, np.full_like(k, 3), given) for _ in range(2)]
        twins.host.gather_kv(0, slots, *wanted)
        twins.gpu.gather_kv(0, slots, *found)
        twins.gpu.stream.synchronize()
        for theirs, ours in zip(wanted, found, strict=True):
            same_numbers(to_numpy(torch, ours, given), theirs)
    twins.close()


@pytest.mark.parametrize(("tokens", "heads"), [(1, 8), (1000, 8), (5000, 8), (4999, 3)])
def test_every_variant_by_size_stays_within_its_tokens(torch: Any, tokens: int, heads: int) -> None:
    twins = Twins(torch, KVLayout(1, heads, 128, "bfloat16", 16), 320)
    random = np.random.default_rng(tokens)
    slots = random.permutation(twins.slots)[:tokens]
    host, gpu, _ = twins.tensors("bfloat16", tokens, random)
    twins.host.write_kv(0, *host, slots)
    twins.gpu.write_kv(0, *gpu, on_gpu(torch, slots, "int64"))
    twins.check()
    margin = 64
    whole = [torch.full((tokens + 2 * margin, heads, 128), 7.0, dtype=torch.bfloat16, device="cuda") for _ in range(2)]
    torch.cuda.synchronize()
    outs = [tensor[margin : margin + tokens] for tensor in whole]
    twins.gpu.gather_kv(0, on_gpu(torch, slots, "int64"), *outs)
    twins.gpu.stream.synchronize()
    for out, tensor, wanted in zip(outs, whole, gpu, strict=True):
        assert torch.equal(out.view(torch.int16), wanted.contiguous().view(torch.int16))
        assert bool((tensor[:margin] == 7).all()), "written in front"
        assert bool((tensor[margin + tokens :] == 7).all()), "written behind"
    twins.close()


def test_slots_on_the_device_that_are_no_slots_are_skipped(torch: Any) -> None:
    twins = Twins(torch, KVLayout(2, 2, 16, "float16", 4), 3)
    slots = [-1, 12, 2**62, -(2**63), 13, 5]
    host, gpu, _ = twins.tensors("float16", len(slots), np.random.default_rng(1))
    twins.host.write_kv(1, host[0][5:], host[1][5:], [5])
    twins.gpu.write_kv(1, *gpu, on_gpu(torch, slots, "int64"))
    twins.check()
    twins.gpu.gather_kv(1, on_gpu(torch, slots, "int64"), *gpu)
    twins.gpu.stream.synchronize()
    assert not gpu[0][:5].any()
    same_numbers(to_numpy(torch, gpu[0][5:], "float16"), host[0][5:])
    twins.close()


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn"])
def test_a_captured_step_follows_slots_and_values(torch: Any, dtype: str) -> None:
    layout = KVLayout(2, 2, 64, dtype, 16, scales=dtype != "bfloat16")
    twins = Twins(torch, layout, 8)
    random = np.random.default_rng(3)
    stream = torch.cuda.Stream()
    _, (k, v), _ = twins.tensors("bfloat16", 5, random)
    slots = on_gpu(torch, [-1] * 5, "int64")
    outs = [torch.empty_like(k), torch.empty_like(v)]

    def step() -> None:
        twins.gpu.write_kv(1, k, v, slots, stream=stream)
        twins.gpu.gather_kv(1, slots, *outs, stream=stream)

    step()  # kernels are loaded by a run before the capture
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        step()
    for turn in range(3):
        host, gpu, _ = twins.tensors("bfloat16", 5, random)
        places = random.permutation(twins.slots)[:5]
        places[turn] = -1
        k.copy_(gpu[0])
        v.copy_(gpu[1])
        slots.copy_(torch.from_numpy(places))
        for out in outs:
            out.fill_(9)
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            graph.replay()
        stream.synchronize()
        twins.host.write_kv(1, *host, places)
        twins.check()
        wanted = [np.empty_like(host[0]), np.empty_like(host[1])]
        twins.host.gather_kv(1, places, *wanted)
        for found, expected in zip(outs, wanted, strict=True):
            same_numbers(to_numpy(torch, found, "bfloat16"), expected)
    twins.close()


def test_the_first_call_of_all_may_be_captured(torch: Any) -> None:
    twins = Twins(torch, KVLayout(1, 3, 44, "float16", 20), 4)  # of a shape that no other test has
    stream, slots = torch.cuda.Stream(), on_gpu(torch, [79, 0, 41], "int64")
    host, gpu, _ = twins.tensors("float32", 3, np.random.default_rng(9))
    outs = [torch.empty_like(tensor) for tensor in gpu]
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        twins.gpu.write_kv(0, *gpu, slots, stream=stream)
        twins.gpu.gather_kv(0, slots, *outs, stream=stream)
    with torch.cuda.stream(stream):
        graph.replay()
    stream.synchronize()
    twins.host.write_kv(0, *host, [79, 0, 41])
    twins.check()
    wanted = [np.empty(tensor.shape, np.float32) for tensor in host]
    twins.host.gather_kv(0, [79, 0, 41], *wanted)
    for found, expected in zip(outs, wanted, strict=True):
        same_numbers(to_numpy(torch, found, "float32"), expected)
    twins.close()


def test_l1_slots_beyond_4_gib(torch: Any) -> None:
    """Blocks of 2 MiB, the last one beyond 6 GiB, and rows of 2^31 elements and more before them."""
    layout = KVLayout(32, 8, 128, "bfloat16", 16)
    pool, memory = adopted_pool(torch, layout, 3100)  # type: ignore[arg-type]
    blocks = [0, 1023, 1024, 2047, 2048, 3099]
    slots = [block * 16 + 15 for block in blocks]
    k, v = (torch.randn(len(slots), 8, 128, device="cuda").to(torch.bfloat16) for _ in range(2))
    expected = memory.view(3100, 32, 2, 16, 2048).clone()
    expected[blocks, 31, 0, 15] = k.view(len(slots), -1).view(torch.uint8)
    expected[blocks, 31, 1, 15] = v.view(len(slots), -1).view(torch.uint8)
    torch.cuda.synchronize()
    pool.write_kv(31, k, v, slots)
    pool.stream.synchronize()
    assert torch.equal(memory.view(expected.shape), expected)
    outs = [torch.empty_like(k), torch.empty_like(v)]
    pool.gather_kv(31, on_gpu(torch, slots, "int64"), *outs)
    pool.stream.synchronize()
    assert torch.equal(outs[0], k)
    assert torch.equal(outs[1], v)
    pool.close()
    del memory, expected
    torch.cuda.empty_cache()


def test_the_array_interface_does_too(torch: Any) -> None:
    twins = Twins(torch, KVLayout(1, 2, 16, "float32", 4), 3)
    host, gpu, _ = twins.tensors("float32", 3, np.random.default_rng(1), gap=3)
    twins.host.write_kv(0, *host, [3, 7, 1])
    k, v = map(InterfaceOnly, gpu)
    twins.gpu.write_kv(0, k, v, InterfaceOnly(on_gpu(torch, [3, 7, 1], "int64")))
    twins.check()
    twins.close()


def test_wrong_tensors_are_refused_before_any_launch(torch: Any) -> None:
    twins = Twins(torch, KVLayout(1, 2, 16, "float32", 4), 3)
    good, other = (torch.zeros(2, 2, 16, device="cuda") for _ in range(2))
    slots = on_gpu(torch, [0, 1], "int64")
    torch.cuda.synchronize()
    for k, where, message in (
        (good.cpu(), slots, "k is on the host, the pool is on cuda:0"),
        (good.cpu().numpy(), slots, "k is on the host"),
        (good.double(), slots, "k is float64"),
        (good.transpose(1, 2).contiguous().transpose(1, 2), slots, "last dimension must be contiguous"),
        (good.clone().requires_grad_(), slots, "refuses it"),
        (good[:, :1], slots, "this layout takes"),
        (good, slots.int(), "slots is int32"),
        (good, slots.cpu(), "slots is on the host"),
        (good, slots[:1], "1 slots for 2 tokens"),
        (good, [0, 12], "slots holds 12"),
    ):
        for call in (twins.gpu.write_kv, lambda layer, k, v, slots: twins.gpu.gather_kv(layer, slots, k, v)):
            with pytest.raises(InvalidArgumentError, match=message):
                call(0, k, other, where)
    with pytest.raises(InvalidArgumentError, match="share memory"):
        twins.gpu.gather_kv(0, slots, good[:1].expand(2, 2, 16), other)
    host = DevicePool(twins.layout, 3, device="host")
    with pytest.raises(InvalidArgumentError, match="k is on cuda:0, the pool is on the host"):
        host.write_kv(0, good, good, [0, 1])
    twins.check()
    twins.close()
