"""`pagedkv selftest` and byte verification: sound devices pass, one wrong byte is reported, on host and GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pagedkv import DevicePool
from pagedkv.kernels import reference
from pagedkv.pool.pool_bytes import PoolBytes

from .conftest import Run

DEVICES = ["host", pytest.param("cuda:0", marks=pytest.mark.gpu)]


@pytest.mark.parametrize("device", DEVICES)
def test_selftest_passes(run: Run, device: str) -> None:
    done = run("selftest", "--device", device)
    assert done.code == 0, done.out
    lines = done.out.splitlines()
    assert [line[:4] for line in lines if not line.startswith(" ")][1:] == ["PASS"] * 8
    assert "      before: 8,192 free, 0 allocated, 8,192 in all" in lines
    assert "      with 5 taken: 8,187 free, 5 allocated, 8,192 in all" in lines
    assert "      after: 8,192 free, 0 allocated, 8,192 in all" in lines
    assert "      logical -> physical: 0 -> 0, 1 -> 6, 2 -> 10" in lines


@pytest.mark.gpu
def test_selftest_names_the_gpu(run: Run) -> None:
    done = run("selftest")  # auto is the GPU where there is one
    lines = done.out.splitlines()
    assert done.code == 0
    assert lines[0].startswith("pagedkv selftest on cuda:0: ")
    assert [line.strip().partition(":")[0] for line in lines[1:4]] == ["GPU", "VRAM", "compute capability"]


def _damage_once(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the first call of a filling method, one bit of one byte of the block it wrote first is another."""
    sound: Callable[..., None] = getattr(PoolBytes, method)
    damaged: list[int] = []

    def fill(pool: DevicePool, *arguments: Any, **options: Any) -> None:
        sound(pool, *arguments, **options)
        if damaged:
            return
        damaged.append(_first_block(pool, method, arguments))
        rows = pool.read_blocks(damaged)
        pool.stream.synchronize()
        rows[0, 3] ^= 1
        pool.write_blocks(damaged, rows)

    monkeypatch.setattr(PoolBytes, method, fill)


def _first_block(pool: DevicePool, method: str, arguments: tuple[Any, ...]) -> int:
    if method == "fill_tokens":
        return int(arguments[2][0]) // pool.layout.block_size
    return int(arguments[0][0])


@pytest.mark.parametrize("device", DEVICES)
def test_one_wrong_byte_fails_the_allocator_item(run: Run, monkeypatch: pytest.MonkeyPatch, device: str) -> None:
    _damage_once("fill_floats", monkeypatch)
    done = run("selftest", "--device", device)
    assert done.code == 1
    failed = [line for line in done.out.splitlines() if line.startswith("FAIL")]
    assert failed == [
        "FAIL  1 allocator: 1 of 10240 floats are not what was written",
        "FAIL: this installation does not work",
    ]


@pytest.mark.parametrize("device", DEVICES)
def test_one_wrong_byte_fails_a_simulation(run: Run, monkeypatch: pytest.MonkeyPatch, device: str) -> None:
    _damage_once("fill_tokens", monkeypatch)
    done = run("simulate", "--device", device, "--verify", "--json", "-")
    assert done.code == 1
    assert done.document["outcome"] == "FAIL"
    assert done.document["failures"]


@pytest.mark.gpu
@pytest.mark.parametrize(
    "load",
    [
        (),
        ("--concurrency", "100"),
        ("--closed-loop",),
        ("--blocks", "40"),
        ("--blocks", "90", "--samples", "4"),
        ("--blocks", "90", "--beam-width", "4"),
    ],
    ids=str,
)
def test_a_gpu_gives_the_figures_of_the_host(run: Run, load: tuple[str, ...]) -> None:
    documents = [
        run("simulate", "--device", device, "--verify", "--json", "-", *load).document for device in ("host", "cuda:0")
    ]
    host, gpu = documents
    assert (host["outcome"], gpu["outcome"]) == ("PASS", "PASS")
    assert gpu["figures"] == host["figures"]
    assert gpu["verification"] == host["verification"]


def test_selftest_fails_when_copies_go_wrong(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "copy_rows", lambda rows, pairs: None)
    done = run("selftest", "--device", "host")
    assert done.code == 1
    assert "FAIL  copy blocks: 32 of 64 blocks are wrong after the copy" in done.out
    assert done.out.splitlines()[-1].startswith("FAIL")


def test_selftest_refuses_a_device_without_bytes(run: Run) -> None:
    assert run("selftest", "--device", "null").code == 2
