"""A kernel that holds a stream until the host says so: what is behind it has certainly not run.

It gives up after some seconds, and says so, in case the code under test waits for the stream on the host.
"""

from __future__ import annotations

import ctypes
import gc
from functools import cache
from typing import Any

import numpy as np

from .launching import call, enter_context, launch, load

GIVE_UP_NS = 8_000_000_000

SOURCE = r"""
extern "C" __global__ void hold(volatile unsigned int* gate, unsigned long long give_up_ns) {
  unsigned long long start, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
  do {
    if (gate[0]) return;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (now - start < give_up_ns);
  gate[1] = 1;
}
"""


@cache
def _kernel() -> Any:
    return load(SOURCE, "hold")


class Gate:
    """Held by `hold`, let go by `open`; one use each."""

    def __init__(self) -> None:
        gc.collect()  # a dropped pool frees its memory, which waits for the device: now, not behind a held stream
        enter_context()
        self._function = _kernel()
        # Mapped and pinned: with unified addressing the device reads it at the same address.
        self._address = int(call("cuMemHostAlloc", 4096, 2))
        self._words = np.frombuffer(memoryview((ctypes.c_uint32 * 1024).from_address(self._address)), np.uint32)
        self._words[:2] = 0

    def hold(self, stream: int) -> None:
        """What is put on this stream from now on waits."""
        launch(self._function, stream, (self._address, GIVE_UP_NS), (ctypes.c_void_p, ctypes.c_uint64))

    def open(self) -> None:
        """Let the stream go on. AssertionError if the gate had to give up before: the host waited for the stream."""
        gave_up = bool(self._words[1])
        self._words[0] = 1
        assert not gave_up, "the gate gave up: a call waited on the host for work behind it"

    def release(self) -> None:
        """Open it whatever happened, wait for the device, free the memory."""
        self._words[0] = 1
        call("cuCtxSynchronize")
        call("cuMemFreeHost", self._address)
