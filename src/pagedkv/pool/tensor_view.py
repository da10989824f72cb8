"""TensorView: a piece of a pool as a strided tensor of any framework, in place.

Owns nothing of its own: it holds what keeps the pool's memory alive, and so does every tensor made from it. Memory is
given back when the pool is closed (or dropped) and the last view and tensor are gone.
Frameworks are imported by the methods that make their tensors, never here.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from pagedkv._core import dlpack_tensor
from pagedkv.dtypes import DTYPES, DType
from pagedkv.errors import InvalidArgumentError, PagedKVError
from pagedkv.streams import Stream

_CPU, _CUDA = 1, 2  # DLPack's device types
_UNSIGNED = 1  # DLPack's type code
_NOBODY_WAITS = -1  # DLPack: the consumer orders the work itself


@dataclass(frozen=True, slots=True)
class ViewedMemory:
    """What stands behind a view: `owner` keeps the bytes alive, `device` is DLPack's (type, id).

    stream: the pool's compute stream, None once the pool is closed or gone (all its work is done then). order: hold
    back later work on the stream of that handle until all work so far on the compute stream is done.
    """

    owner: object
    device: tuple[int, int]
    stream: Callable[[], Stream | None]
    order: Callable[[int], None]


@dataclass(frozen=True, slots=True)
class TensorView:
    """K, V or scales of a layer over all blocks of a pool, scratch blocks included: no copy, writable, strided.

    shape: elements along each dimension; strides: in elements, as DLPack and PyTorch count; dtype: a name as in
    pagedkv.dtypes; address: of the first element. Offers DLPack and the array interface of its device, so
    `torch.from_dlpack(view)`, `np.asarray(view)` and `cupy.asarray(view)` work too.
    Streams: DLPack's consumers name theirs, and its later work is held back behind the pool's compute stream. The other
    way round is yours: `apply(plan, stream)` takes your stream as the compute stream, an event does it as well.
    Valid as long as it or a tensor made from it is held, also after the pool's `close`.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    address: int
    _memory: ViewedMemory | None = field(repr=False, compare=False)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self._element.itemsize

    @property
    def byte_strides(self) -> tuple[int, ...]:
        """The strides in bytes, as NumPy and CuPy count."""
        return tuple(stride * self.itemsize for stride in self.strides)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements, without what lies between them."""
        return prod(self.shape) * self.itemsize

    @property
    def compact(self) -> bool:
        """Whether the elements follow each other without a gap, in the order of the indices."""
        return self.strides == tuple(prod(self.shape[i + 1 :]) for i in range(len(self.shape)))

    def numpy(self) -> npt.NDArray[Any]:
        """A NumPy array; bfloat16 and 8-bit floats as unsigned integers. Pools on the host only; on no stream:
        synchronize the pool's first. Raises InvalidArgumentError elsewhere.
        """
        memory = self._bytes("numpy")
        if memory.device[0] != _CPU:
            raise InvalidArgumentError("NumPy cannot address device memory; use torch() or cupy(), or pool.read_blocks")
        return np.asarray(self)

    def torch(self) -> Any:
        """A torch.Tensor of the format's own dtype. Raises InvalidArgumentError where PyTorch is not installed."""
        self._bytes("torch")
        torch = _framework("torch", "PyTorch")
        if self.itemsize > 1 or self.dtype == "int8":
            return self._taken("PyTorch", lambda: torch.from_dlpack(self))
        # PyTorch takes 8-bit floats through DLPack from some version on; as bytes it takes them in all.
        return self._taken("PyTorch", lambda: torch.from_dlpack(_AsUnsigned(self)).view(getattr(torch, self.dtype)))

    def cupy(self) -> Any:
        """A cupy.ndarray; bfloat16 and 8-bit floats as unsigned integers. Pools on a GPU only; raises
        InvalidArgumentError elsewhere and where CuPy is not installed.
        """
        memory = self._bytes("cupy")
        if memory.device[0] != _CUDA:
            raise InvalidArgumentError("CuPy takes memory of a GPU only; use numpy() for a pool on the host")
        cupy = _framework("cupy", "CuPy")
        source = self if self._element.storage == self.dtype else _AsUnsigned(self)
        return self._taken("CuPy", lambda: cupy.from_dlpack(source))

    def jax(self) -> Any:
        """A jax.Array over the same bytes, for compact views: those of a layout with order="layer", or of one block.

        JAX takes its arrays for immutable: make it anew after the bytes have changed, and keep no traced result of it.
        Raises InvalidArgumentError for a view with gaps, a format or an address that JAX does not take in place, and
        where JAX is not installed.
        """
        self._bytes("jax")
        if not self.compact:
            raise InvalidArgumentError(
                f"JAX takes compact tensors only; this view has shape {self.shape}, strides {self.strides}. Use a "
                'KVLayout with order="layer" and its k and v, or torch()'
            )
        dlpack = _framework("jax.dlpack", "JAX")
        return self._taken("JAX", lambda: dlpack.from_dlpack(self, copy=False))

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule. Raises BufferError for copy=True and another device, as the protocol has it; on a GPU
        BackendError where the stream cannot wait for the pool's, and if the pool is lost.
        """
        return self._capsule(self._element.code, stream, max_version=max_version, dl_device=dl_device, copy=copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's (device type, id)."""
        return self._bytes("__dlpack_device__").device

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        # Without it, np.asarray would quietly wrap what it cannot address in an array of one Python object.
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        if self._memory is None or self._memory.device[0] != _CPU:
            raise AttributeError("__array_interface__ is for memory of the host")
        return self._interface()

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self._memory is None or self._memory.device[0] != _CUDA:
            raise AttributeError("__cuda_array_interface__ is for memory of a GPU")
        stream = self._memory.stream()
        handle = None if stream is None else int(getattr(stream, "handle", 0)) or 1  # the interface has 1 for default
        return self._interface() | {"stream": handle}

    def __reduce__(self) -> NoReturn:
        # A deep copy would hold a copy of the bytes, and point at the originals.
        raise InvalidArgumentError("a view is a place in this process's memory; copy or pickle a tensor made from it")

    @property
    def _element(self) -> DType:
        return DTYPES[self.dtype]

    def _bytes(self, what: str) -> ViewedMemory:
        if self._memory is None:
            _no_bytes(what)
        return self._memory

    def _taken(self, name: str, make: Callable[[], Any]) -> Any:
        try:
            return make()
        except PagedKVError:
            raise
        except (AssertionError, BufferError, RuntimeError, TypeError, ValueError) as error:
            # A framework built without CUDA, a format or an address that it does not know.
            raise InvalidArgumentError(
                f"{name} does not take this {self.dtype} tensor in place ({error}); use another framework, or a build "
                "of it for the pool's device"
            ) from None

    def _capsule(self, code: int, stream: int | None, **options: Any) -> Any:
        memory = self._bytes("__dlpack__")
        if memory.device[0] == _CUDA and stream != _NOBODY_WAITS:
            # DLPack: None is CUDA's default stream, whose handle is 0 (and 1, which says the same).
            memory.order(stream or 0)
        form = (code, self._element.bits)
        tensor: Any = dlpack_tensor(memory.owner, self.address, self.shape, self.strides, form, memory.device)
        return tensor.__dlpack__(**options)

    def _interface(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "strides": self.byte_strides,
            "typestr": np.dtype(self._element.storage).str,
            "data": (self.address, False),
            "version": 3,
        }


@dataclass(frozen=True, slots=True)
class _AsUnsigned:
    """A view through DLPack as unsigned integers, for who does not know its format."""

    view: TensorView

    def __dlpack__(self, *, stream: int | None = None, **options: Any) -> Any:
        return self.view._capsule(_UNSIGNED, stream, **options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.view.__dlpack_device__()


def _no_bytes(what: str) -> NoReturn:
    raise InvalidArgumentError(f"{what}: the null backend has addresses without bytes; open the pool on another device")


def _framework(module: str, name: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InvalidArgumentError(f"{name} is not usable here ({error}); install it, or use another tensor") from None
