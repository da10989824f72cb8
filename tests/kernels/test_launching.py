"""What the driver is asked to launch, without one: arguments are where the driver reads them."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pagedkv.backends.cuda_launch import I32, U64, LoadedKernel


class Driver:
    """Keeps each launch: (function, grid, threads, shared, stream, attributes, the bytes of the arguments)."""

    def __init__(self) -> None:
        self.launched: list[tuple[Any, ...]] = []
        attribute_ids = SimpleNamespace(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION="overlap")
        self.module = SimpleNamespace(
            CUlaunchConfig=SimpleNamespace,
            CUlaunchAttribute=lambda: SimpleNamespace(value=SimpleNamespace()),
            CUlaunchAttributeID=attribute_ids,
        )

    def call(self, name: str, *given: Any) -> None:
        if name == "cuLaunchKernel":
            function, *grid, threads, depth, height, shared, stream, address, extra = given
            attributes: list[Any] = []
        else:
            assert name == "cuLaunchKernelEx"
            config, function, address, extra = given
            grid = [config.gridDimX, config.gridDimY, config.gridDimZ]
            threads, depth, height = config.blockDimX, config.blockDimY, config.blockDimZ
            shared, stream = config.sharedMemBytes, config.hStream
            assert len(config.attrs) == config.numAttrs
            attributes = [(one.id, one.value.programmaticStreamSerializationAllowed) for one in config.attrs]
        assert (depth, height, extra) == (1, 1, 0)
        first, second = (ctypes.c_void_p * 2).from_address(address)
        assert first is not None
        assert second is not None
        arguments = ctypes.string_at(first, 16), ctypes.string_at(second, 4)
        self.launched.append((function, tuple(grid), threads, shared, stream, attributes, *arguments))


@pytest.mark.parametrize("early", [False, True])
def test_a_launch_hands_the_driver_what_it_was_given(early: bool) -> None:
    driver = Driver()
    kernel = LoadedKernel(driver, "function", (U64 * 2, I32))  # type: ignore[arg-type]
    launch = kernel.launch_early if early else kernel.launch
    for number in (1, 2):
        stream: Any = SimpleNamespace(handle=40 + number)
        launch((number, 3, 4), 128, stream, np.array([number, 9], np.uint64), -number, shared=512 * number)
    attributes = [("overlap", 1)] if early else []
    for number, found in zip((1, 2), driver.launched, strict=True):
        raw = np.array([number, 9], np.uint64).tobytes(), np.int32(-number).tobytes()
        assert found == ("function", (number, 3, 4), 128, 512 * number, 40 + number, attributes, *raw)
