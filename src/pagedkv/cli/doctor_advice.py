"""What stands between this machine and its GPUs, each with its mend. Plain data in, plain data out.

Facts relied on: a driver runs programs of its own CUDA major version and of older ones; CUDA 13 needs a driver of 580
or later and compiles for compute capability 7.5 and later, CUDA 12 for 5.0 and later (NVIDIA's release notes).
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from pagedkv.cli.doctor_driver import DriverFacts, Gpu, error_name
from pagedkv.cli.doctor_packages import PackageFacts

EXTRA_13, EXTRA_12 = "pip install 'pagedkv[cuda]'", "pip install 'pagedkv[cuda12]'"
OLDEST = (5, 0)
OLDEST_OF_CUDA_13 = (7, 5)
_NO_DEVICE = 100
_MENDS = {
    3: "the driver is shutting down or not initialized; restart the process",
    34: "the library is a stub for linking; take the folder 'stubs' out of LD_LIBRARY_PATH",
    35: "update the driver",
    46: "the GPU is busy or unavailable; see whether another process holds it exclusively",
    101: "look at CUDA_VISIBLE_DEVICES",
    802: "the system is not ready; start nvidia-fabricmanager, or wait for it",
    803: "driver library and kernel module differ in version; reboot after a driver update, or update the container",
    804: "the compatibility package does not support this GPU; take it out of LD_LIBRARY_PATH, or update the driver",
    999: "look at `dmesg`; reload the nvidia_uvm module, or reboot",
}


@dataclass(frozen=True, slots=True)
class Problem:
    """what: one sentence; mend: what to do."""

    what: str
    mend: str


def find_problems(driver: DriverFacts, packages: PackageFacts) -> list[Problem]:
    """All problems, the first to mend first; none where a GPU can be used. Modifies nothing."""
    return [*_driver_problems(driver, packages), *_package_problems(driver, packages), *_gpu_problems(driver, packages)]


def _driver_problems(driver: DriverFacts, packages: PackageFacts) -> list[Problem]:
    if driver.library is None:
        if driver.version is not None:
            what = f"the driver {driver.version} is loaded, its library libcuda is not found"
            return [
                Problem(
                    what, "install the driver's library, or start the container with --gpus all; see LD_LIBRARY_PATH"
                )
            ]
        return [Problem("no NVIDIA driver on this machine", "install the driver, or use the devices 'host' and 'null'")]
    problems = []
    major = packages.cuda_major
    if driver.cuda is not None and major is not None and driver.cuda[0] < major:
        what = f"the driver supports CUDA {_dotted(driver.cuda)}, the bindings are of CUDA {major}"
        mend = "update the driver" + (" to 580 or later" if major == 13 else "")
        problems.append(Problem(what, f"{mend}, or {EXTRA_12}" if driver.cuda[0] == 12 else mend))
    if driver.status == _NO_DEVICE or (driver.status == 0 and not driver.gpus):
        problems.append(_invisible())
    elif driver.status:
        mend = _MENDS.get(driver.status, "see what nvidia-smi says, then reinstall the driver")
        problems.append(Problem(f"the driver does not start: {error_name(driver.status)}", mend))
    return problems


def _invisible() -> Problem:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return Problem(
            f"no GPU is visible; CUDA_VISIBLE_DEVICES is {visible!r}",
            "unset it, or name the GPUs that nvidia-smi lists",
        )
    return Problem("there is a driver and no GPU", "see what nvidia-smi lists; start a container with --gpus all")


def _package_problems(driver: DriverFacts, packages: PackageFacts) -> list[Problem]:
    extra = _extra(driver)
    missing = [
        name
        for name, version in (
            ("cuda-core", packages.core),
            ("cuda-bindings", packages.bindings),
            ("NVRTC", packages.nvrtc or packages.compiler),
        )
        if version is None
    ]
    problems = [Problem(f"not installed: {', '.join(missing)}", extra)] if missing else []
    problems += [Problem(trouble, f"{extra} --force-reinstall") for trouble in packages.troubles]
    major = packages.cuda_major
    if major is not None and packages.compiler is not None and packages.compiler[0] != major:
        what = f"NVRTC is of CUDA {_dotted(packages.compiler)}, the bindings are of CUDA {major}"
        problems.append(Problem(what, f"{extra}; see LD_LIBRARY_PATH for another CUDA toolkit"))
    return problems


def _extra(driver: DriverFacts) -> str:
    """The extra that suits the driver and the oldest GPU."""
    old_driver = driver.cuda is not None and driver.cuda[0] == 12
    old_gpu = any(OLDEST <= gpu.capability < OLDEST_OF_CUDA_13 for gpu in driver.gpus)
    return EXTRA_12 if old_driver or old_gpu else EXTRA_13


def _gpu_problems(driver: DriverFacts, packages: PackageFacts) -> list[Problem]:
    return [problem for gpu in driver.gpus for problem in _of_gpu(gpu, packages.cuda_major)]


def _of_gpu(gpu: Gpu, major: int | None) -> list[Problem]:
    problems = []
    if gpu.trouble:
        problems.append(Problem(f"GPU {gpu.ordinal} does not answer: {gpu.trouble}", "see what nvidia-smi says of it"))
        if gpu.capability == (0, 0):  # nothing is known of it
            return problems
    what = f"GPU {gpu.ordinal} has compute capability {_dotted(gpu.capability)}"
    if gpu.capability < OLDEST:
        problems.append(Problem(f"{what}; 5.0 is the oldest that works", "use another GPU, or device 'host'"))
    elif gpu.capability < OLDEST_OF_CUDA_13 and major is not None and major >= 13:
        problems.append(Problem(f"{what}, for which CUDA {major} does not compile", EXTRA_12))
    return problems


def _dotted(numbers: tuple[int, int]) -> str:
    return f"{numbers[0]}.{numbers[1]}"
