"""Launching a kernel of the test's own on any stream, past everything that the package has for it."""

from __future__ import annotations

from typing import Any

from pagedkv.kernels.loader import compile_source


def call(function: str, *arguments: Any) -> Any:
    """A driver call; its results without the return code. AssertionError on failure."""
    from cuda.bindings import driver  # here, so that these tests can be collected without it

    code, *results = getattr(driver, function)(*arguments)
    assert code == driver.CUresult.CUDA_SUCCESS, f"{function}: {code!r}"
    return results[0] if len(results) == 1 else tuple(results)


def enter_context() -> None:
    """Make the primary context of GPU 0 current in this thread: the one that everybody shares."""
    call("cuInit", 0)
    call("cuCtxSetCurrent", call("cuDevicePrimaryCtxRetain", call("cuDeviceGet", 0)))


def load(source: str, name: str) -> Any:
    """The function `name` of CUDA C++ source, compiled for GPU 0. A context must be current."""
    from cuda.bindings import driver

    kinds = driver.CUdevice_attribute
    major, minor = (
        call("cuDeviceGetAttribute", kind, 0)
        for kind in (
            kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
            kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
        )
    )
    module = call("cuModuleLoadData", compile_source(source, f"{name}.cu", f"sm_{major}{minor}", {}))
    return call("cuModuleGetFunction", module, name.encode())


def launch(function: Any, stream: int, values: tuple[Any, ...] = (), types: tuple[Any, ...] = ()) -> None:
    """One thread of `function` on the stream."""
    call("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, stream, (values, types) if values else 0, 0)
