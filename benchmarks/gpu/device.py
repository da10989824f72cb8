"""The GPU under the benchmarks: checked driver calls, event pairs, graphs, and who it is."""

import subprocess
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from pagedkv.backends.cuda_stream import CudaStream
from pagedkv.kernels.loader import nvrtc_version

_PEERS = ("torch", "flashinfer-python", "flash-attn-4", "nvidia-cutlass-dsl")


def call(function: str, *arguments: Any) -> Any:
    """A driver call; its results without the return code. Raises RuntimeError on failure."""
    from cuda.bindings import driver

    code, *results = getattr(driver, function)(*arguments)
    if code != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"{function}: {code!r}")
    return results[0] if len(results) == 1 else tuple(results)


def enter_context() -> None:
    """Make the primary context of GPU 0 current in this thread."""
    call("cuInit", 0)
    call("cuCtxSetCurrent", call("cuDevicePrimaryCtxRetain", call("cuDeviceGet", 0)))


class EventPair:
    """Time between two places of a stream, by the device's own clock."""

    def __init__(self) -> None:
        self._first, self._last = call("cuEventCreate", 0), call("cuEventCreate", 0)

    def around(self, stream: CudaStream, work: Callable[[], object]) -> None:
        """Put the work on the stream between the two events. Does not wait."""
        call("cuEventRecord", self._first, stream.handle)
        work()
        call("cuEventRecord", self._last, stream.handle)

    def microseconds(self) -> float:
        """Waits for the second event."""
        call("cuEventSynchronize", self._last)
        return float(call("cuEventElapsedTime", self._first, self._last)) * 1e3


def capture(stream: CudaStream, work: Callable[[], object]) -> Any:
    """The work, put on the stream, as an executable graph."""
    from cuda.bindings import driver

    call("cuStreamBeginCapture", stream.handle, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED)
    work()
    return call("cuGraphInstantiate", call("cuStreamEndCapture", stream.handle), 0)


def describe_gpu() -> dict[str, Any]:
    enter_context()
    free, total = call("cuMemGetInfo")
    return {
        "name": call("cuDeviceGetName", 128, call("cuDeviceGet", 0)).split(b"\0")[0].decode(),
        "memory_bytes": int(total),
        "free_bytes": int(free),
        "cuda_driver_api": int(call("cuDriverGetVersion")),
        "settings": smi("driver_version,clocks.sm,clocks.mem,clocks.max.sm,clocks.max.mem,power.limit"),
    }


def describe_packages() -> dict[str, str]:
    found = {"nvrtc": ".".join(map(str, nvrtc_version()))}
    for package in ("cuda-core", "cuda-bindings", "nvidia-cuda-nvrtc", *_PEERS):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed as a package"
    return found


def smi(query: str) -> dict[str, str]:
    """What nvidia-smi says of GPU 0; empty where there is none."""
    command = ["nvidia-smi", "-i", "0", f"--query-gpu={query}", "--format=csv,noheader"]
    try:
        line = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return {}
    return dict(zip(query.split(","), (value.strip() for value in line.split(",")), strict=False))
