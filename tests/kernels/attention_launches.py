"""Stands for a GPU under decode attention: keeps what is launched, and carries out a launch from its argument alone.

It knows the kernel's own declaration of that argument and reads everything else through its addresses.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from pagedkv import BackendError
from pagedkv.backends.cuda_tensor_maps import ENCODE
from pagedkv.dtypes import DTYPES
from pagedkv.kernels.loader import kernel_source
from pagedkv.kernels.number_formats import from_float32, to_float32

# The driver's numbers of what a tensor map is made of.
_MAP_NUMBERS = {
    "CUtensorMapDataType": {"CU_TENSOR_MAP_DATA_TYPE_UINT8": 0, "CU_TENSOR_MAP_DATA_TYPE_UINT16": 1},
    "CUtensorMapInterleave": {"CU_TENSOR_MAP_INTERLEAVE_NONE": 0},
    "CUtensorMapSwizzle": {"CU_TENSOR_MAP_SWIZZLE_128B": 3},
    "CUtensorMapL2promotion": {"CU_TENSOR_MAP_L2_PROMOTION_L2_128B": 2},
    "CUtensorMapFloatOOBfill": {"CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE": 0},
}
_MAP_KINDS = {kind: SimpleNamespace(**numbers) for kind, numbers in _MAP_NUMBERS.items()}
_FORMATS = {kind.number: name for name, kind in DTYPES.items()}
Numbers = npt.NDArray[Any]
Launch = tuple[str, dict[str, int], tuple[int, int, int], tuple[Any, ...]]


def declared_fields() -> list[tuple[str, str]]:
    """(name, struct code) of batch_t's fields in the order of the kernels' source."""
    body = re.search(r"struct batch_t \{(.*?)\};", kernel_source("decode_attention"), re.DOTALL)
    assert body is not None
    fields = []
    for kind, names in re.findall(r"^\s*(?:const )?(\w+\*?) ([^;]+);", re.sub(r"//.*", "", body[1]), re.MULTILINE):
        for name in names.split(","):
            code = "Q" if "*" in kind + name else {"u64": "Q", "i64": "q", "float": "f"}[kind]
            fields.append((name.strip(" *"), code))
    return fields


class Launches:
    """Stands for a CUDA driver and its kernel store, with `processors` SMs; keeps what is launched."""

    compute_capability: tuple[int, int] = (9, 0)
    ordinal = 0

    def __init__(self, processors: int = 1) -> None:
        self.processors = processors
        self.launched: list[Launch] = []
        self.allocated: list[int] = []
        self.full = False
        self.version = 13000
        self.early: list[str] = []
        self.maps: list[tuple[Any, ...]] = []
        self.refuses_maps = False
        self._encode = ENCODE(self._encoded)
        modes = SimpleNamespace(CU_STREAM_CAPTURE_MODE_RELAXED="relaxed")
        self.module = SimpleNamespace(
            CUstreamCaptureMode=modes,
            CUresult=int,
            cuMemFree=lambda address: None,
            cuGetErrorName=lambda code: (0, b"CUDA_ERROR_INVALID_VALUE"),
            cuGetErrorString=lambda code: (0, b"invalid argument"),
            **_MAP_KINDS,
        )
        self.mode = "global"

    def current(self) -> AbstractContextManager[None]:
        return nullcontext()

    def attribute(self, name: str) -> int:
        return {"MULTIPROCESSOR_COUNT": self.processors}[name]

    def call(self, function: str, *arguments: Any) -> Any:
        if function == "cuThreadExchangeStreamCaptureMode":
            before, self.mode = self.mode, arguments[0]
            return before
        if function == "cuMemGetInfo":
            return 0, 0
        if function == "cuDriverGetVersion":
            return self.version
        if function == "cuGetProcAddress":
            assert arguments == (b"cuTensorMapEncodeTiled", 12000, 0)
            return ctypes.cast(self._encode, ctypes.c_void_p).value, None
        assert (function, self.mode) == ("cuMemAlloc", "relaxed"), "a capture forbids allocations"
        if self.full:
            raise BackendError(name="CUDA_ERROR_OUT_OF_MEMORY", text="", call=function)
        self.allocated.append(arguments[0])
        return len(self.allocated) << 40

    def _encoded(self, place: int, kind: int, rank: int, address: int, *rest: Any) -> int:
        """The driver's cuTensorMapEncodeTiled: keeps what it is told, and numbers the maps."""
        if place % 64 or self.refuses_maps:
            return 1
        (sizes, steps, box, elements), ways = rest[:4], rest[4:]
        wide = [list((ctypes.c_uint64 * n).from_address(at)) for at, n in ((sizes, rank), (steps, rank - 1))]
        narrow = [list((ctypes.c_uint32 * rank).from_address(at)) for at in (box, elements)]
        self.maps.append((kind, rank, address, *wide, *narrow, *ways))
        ctypes.memset(place, len(self.maps), 128)
        return 0

    def get(self, name: str, types: Sequence[Any], **macros: int) -> SimpleNamespace:
        def launch(grid: tuple[int, int, int], threads: int, stream: object, *values: Any, shared: int = 0) -> None:
            for kind, value in zip(types, values, strict=True):
                if isinstance(value, np.ndarray):
                    assert ctypes.sizeof(kind) == value.nbytes
                else:
                    kind(value)
            assert shared == macros.get("SHARED", 0)
            assert (len(values) == 2) == bool(shared), "what tiles come by"
            self.launched.append((name, macros, grid, values))

        def reserve(shared: int) -> None:
            assert 0 < shared < 227 << 10

        def launch_early(*arguments: Any, **options: Any) -> None:
            self.early.append(name)
            launch(*arguments, **options)

        return SimpleNamespace(launch=launch, launch_early=launch_early, reserve=reserve)


def _read(address: int, dtype: str) -> Any:
    storage = DTYPES[dtype].storage if dtype in DTYPES else dtype
    size = np.dtype(storage).itemsize
    return np.frombuffer(memoryview((ctypes.c_uint8 * size).from_address(address)), storage)


def carry_out(launch: Launch) -> None:
    """All shares of a launch at once, from its argument alone, one head and token at a time."""
    _, macros, grid, (argument, *_) = launch
    fields = declared_fields()
    kinds = {"Q": "u8", "q": "i8", "f": "f4"}
    values = np.frombuffer(argument.tobytes(), [(name, kinds[code]) for name, code in fields])
    b = SimpleNamespace(**{name: values[name][0].item() for name, _ in fields})
    dim, query_format, stored_format = macros["HEAD_DIM"], _FORMATS[macros["QUERY"]], _FORMATS[macros["STORED"]]
    assert grid[0] == b.kv_heads
    assert grid[1] >= 1
    assert b.group * b.tokens <= grid[2] * macros["COLUMNS"] * macros.get("GROUPS", 1)
    cap = b.cap if macros["CAP"] else 0

    def vector(address: int, dtype: str) -> Numbers:
        size = DTYPES[dtype].itemsize
        return np.concatenate([to_float32(_read(address + size * d, dtype), dtype) for d in range(dim)]).astype(float)

    for i, j, kv_head in np.ndindex(b.count, b.tokens, b.kv_heads):
        row = int(_read(b.rows + 4 * i, "int32")[0]) if b.rows else i
        length = int(_read(b.lengths + 4 * i, "int32")[0])
        own = length - (b.tokens - 1 - j)
        end = min(own if b.causal else length, b.width * b.block_size)
        start = int(_read(b.starts + 4 * i, "int32")[0]) if b.starts else 0
        if b.window:
            start = max(start, own - b.window)
        keys, found = [], []
        for position in range(start, end if 0 <= row < b.table_rows else 0):
            column = position * b.magic >> b.shift
            block = int(_read(b.table + 4 * (row * b.table_stride + column), "int32")[0])
            token = position - column * b.block_size
            at = block * b.block_stride + token * b.token_stride + kv_head * b.head_stride
            scales = [1.0, 1.0]
            if macros.get("SCALES"):
                place = block * b.scale_block_stride + token * b.scale_token_stride + kv_head * b.scale_head_stride
                scales = [float(_read(part + place, "float32")[0]) for part in (b.k_scales, b.v_scales)]
            keys.append(vector(b.k + at, stored_format) * scales[0])
            found.append(vector(b.v + at, stored_format) * scales[1])
        for head in range(kv_head * b.group, (kv_head + 1) * b.group):
            size = DTYPES[query_format].itemsize
            place = i * b.query_stride + j * b.query_token_stride + head * b.query_head_stride
            query = vector(b.queries + size * place, query_format)
            scores = np.array([key @ query * b.score_scale for key in keys])
            weights = np.exp2(cap * np.tanh(scores) if cap else scores)
            result = weights @ np.array(found) / weights.sum() * b.value_scale if keys else np.zeros(dim)
            raw = from_float32(result.astype(np.float32), query_format).tobytes()
            target = i * b.out_stride + j * b.out_token_stride + head * b.out_head_stride
            ctypes.memmove(b.out + size * target, raw, len(raw))
