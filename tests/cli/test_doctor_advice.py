"""Every trouble that keeps a GPU from being used is named with its mend."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pagedkv.cli.doctor_advice import find_problems
from pagedkv.cli.doctor_driver import DriverFacts, Gpu
from pagedkv.cli.doctor_packages import PackageFacts

H200 = Gpu(0, "NVIDIA H200", 150_000_000_000, 149_000_000_000, (9, 0))
V100 = Gpu(1, "Tesla V100", 16_000_000_000, 15_000_000_000, (7, 0))
KEPLER = Gpu(0, "Tesla K80", 12_000_000_000, 11_000_000_000, (3, 7))
MUTE = Gpu(0, "unknown", 0, None, (0, 0), "CUDA_ERROR_UNKNOWN")
DRIVER = DriverFacts("libcuda.so.1", "580.95.05", (13, 0), 0, (H200,))
CUDA_13 = PackageFacts("1.2.2", "13.5.0", "nvidia-cuda-nvrtc 13.5.37", (13, 5))
CUDA_12 = PackageFacts("1.2.2", "12.9.0", "nvidia-cuda-nvrtc-cu12 12.9.1", (12, 9))


@pytest.mark.parametrize("packages", [CUDA_13, CUDA_12], ids=["cuda", "cuda12"])
def test_a_complete_machine_has_no_problem(packages: PackageFacts) -> None:
    assert find_problems(DRIVER, packages) == []


@pytest.mark.parametrize(
    ("driver", "packages", "what", "mend"),
    [
        (DriverFacts(), CUDA_13, "no NVIDIA driver", "install the driver"),
        (DriverFacts(version="580.95.05"), CUDA_13, "libcuda is not found", "LD_LIBRARY_PATH"),
        (replace(DRIVER, cuda=(12, 4)), CUDA_13, "supports CUDA 12.4, the bindings are of CUDA 13", "pagedkv[cuda12]"),
        (
            replace(DRIVER, cuda=(11, 8)),
            CUDA_12,
            "supports CUDA 11.8, the bindings are of CUDA 12",
            "update the driver",
        ),
        (replace(DRIVER, status=803, gpus=()), CUDA_13, "does not start", "reboot"),
        (replace(DRIVER, status=1234, gpus=()), CUDA_13, "CUDA error 1234", "nvidia-smi"),
        (DRIVER, PackageFacts(), "not installed: cuda-core, cuda-bindings, NVRTC", "pagedkv[cuda]"),
        (replace(DRIVER, cuda=(12, 8)), PackageFacts(), "not installed", "pagedkv[cuda12]"),
        (replace(DRIVER, gpus=(V100,)), PackageFacts(), "not installed", "pagedkv[cuda12]"),
        (DRIVER, replace(CUDA_13, compiler=(12, 9)), "NVRTC is of CUDA 12.9", "LD_LIBRARY_PATH"),
        (DRIVER, replace(CUDA_13, troubles=("NVRTC: libnvrtc.so not found",)), "libnvrtc.so", "--force-reinstall"),
        (replace(DRIVER, gpus=(H200, V100)), CUDA_13, "GPU 1 has compute capability 7.0", "pagedkv[cuda12]"),
        (replace(DRIVER, gpus=(KEPLER,)), CUDA_12, "5.0 is the oldest", "another GPU"),
        (replace(DRIVER, gpus=(MUTE,)), CUDA_13, "GPU 0 does not answer: CUDA_ERROR_UNKNOWN", "nvidia-smi"),
    ],
)
def test_one_trouble_is_one_problem(driver: DriverFacts, packages: PackageFacts, what: str, mend: str) -> None:
    (problem,) = find_problems(driver, packages)
    assert what in problem.what
    assert mend in problem.mend


@pytest.mark.parametrize("status", [0, 100])
def test_hidden_gpus(monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    driver = replace(DRIVER, status=status, gpus=())
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    (problem,) = find_problems(driver, CUDA_13)
    assert "CUDA_VISIBLE_DEVICES is '7'" in problem.what
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    (problem,) = find_problems(driver, CUDA_13)
    assert "no GPU" in problem.what


@pytest.mark.parametrize("capability", [(5, 0), (7, 4)])
def test_gpus_that_need_cuda_12_work_with_it(capability: tuple[int, int]) -> None:
    driver = replace(DRIVER, gpus=(replace(H200, capability=capability),))
    assert find_problems(driver, CUDA_12) == []
    assert len(find_problems(driver, CUDA_13)) == 1


def test_troubles_add_up() -> None:
    assert len(find_problems(DriverFacts(), PackageFacts())) == 2
