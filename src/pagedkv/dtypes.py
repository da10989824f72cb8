"""The number formats that keys and values come in, by one name each.

Names are those of PyTorch. `storage` is the NumPy type that shows the same bytes: NumPy has no bfloat16 and no 8-bit
floats, so it sees unsigned integers there. `code` and `bits` are the DLPack specification's.
"""

from __future__ import annotations

from dataclasses import dataclass

from pagedkv.errors import InvalidArgumentError


@dataclass(frozen=True, slots=True)
class DType:
    """One format. `number` names it in kernels' macros; `largest` is its largest finite value."""

    name: str
    itemsize: int
    storage: str
    code: int
    number: int
    largest: float

    @property
    def bits(self) -> int:
        """Bits of an element."""
        return 8 * self.itemsize


DTYPES = {
    kind.name: kind
    for kind in (
        DType("float32", 4, "float32", 2, 0, 3.4028234663852886e38),
        DType("float16", 2, "float16", 2, 1, 65504.0),
        DType("bfloat16", 2, "uint16", 4, 2, 3.3895313892515355e38),
        DType("float8_e4m3fn", 1, "uint8", 10, 3, 448.0),
        DType("float8_e5m2", 1, "uint8", 12, 4, 57344.0),
        DType("int8", 1, "int8", 0, 5, 127.0),
    )
}
# What a model computes in, and what attention kernels take queries in.
COMPUTE_DTYPES = ("float32", "float16", "bfloat16")
_OTHER_NAMES = {
    "float": "float32",
    "fp32": "float32",
    "half": "float16",
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp8": "float8_e4m3fn",
    "fp8_e4m3": "float8_e4m3fn",
    "fp8_e5m2": "float8_e5m2",
}


def dtype_of(value: object) -> DType:
    """The DType of a name ("bfloat16", "fp8"), or of a framework's dtype object (torch.bfloat16, np.float16).

    Raises InvalidArgumentError for a format that keys and values are not stored in. "float8_e4m3" is refused: where
    it exists beside e4m3fn, it is another format.
    """
    if isinstance(value, str):
        name = value.strip().lower().rpartition(".")[2]
        name = _OTHER_NAMES.get(name, name)
    else:  # no other names: Python's float, a dtype to NumPy and PyTorch, has 64 bits
        name = str(getattr(value, "name", None) or getattr(value, "__name__", value)).rpartition(".")[2]
    found = DTYPES.get(name)
    if found is None:
        raise InvalidArgumentError(f"dtype {value!r} is unknown; give one of {', '.join(DTYPES)}")
    return found
