"""The pool in PyTorch's terms: tensors go in and out, work is put on PyTorch's current stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from pagedkv.dtypes import COMPUTE_DTYPES, dtype_of
from pagedkv.errors import InvalidArgumentError
from pagedkv.kernels.attention_shapes import DecodeShape, check_decode_shape
from pagedkv.kv_layout import KVLayout
from pagedkv.pool import DevicePool
from pagedkv.step_plan import StepPlan
from pagedkv.streams import AnyStream


@dataclass(frozen=True, slots=True)
class Shape:
    """What all K and V that a cache is given have in common."""

    heads: int
    k_dim: int
    v_dim: int
    dtype: torch.dtype
    device: torch.device

    @classmethod
    def of(cls, k: torch.Tensor, v: torch.Tensor) -> Shape:
        """The shape of K and V [batch, heads, tokens, dim]. Raises InvalidArgumentError."""
        if k.ndim != 4 or v.ndim != 4 or k.shape[:3] != v.shape[:3] or k.dtype != v.dtype or k.device != v.device:
            raise InvalidArgumentError(
                f"K is {k.dtype} {tuple(k.shape)} on {k.device}, V is {v.dtype} {tuple(v.shape)} on {v.device}; give "
                "[batch, heads, tokens, dim] alike but for dim"
            )
        if dtype_of(k.dtype).name not in COMPUTE_DTYPES:
            raise InvalidArgumentError(f"K and V are {k.dtype}; give one of {', '.join(COMPUTE_DTYPES)}")
        return cls(k.shape[1], k.shape[3], v.shape[3], k.dtype, k.device)

    def fits(self, k: torch.Tensor, v: torch.Tensor) -> bool:
        """Whether K and V have this shape."""
        (batch, _, tokens, _), kinds = k.shape, {(k.dtype, k.device), (v.dtype, v.device)}
        return (
            k.shape == (batch, self.heads, tokens, self.k_dim)
            and v.shape == (batch, self.heads, tokens, self.v_dim)
            and kinds == {(self.dtype, self.device)}
        )

    def __str__(self) -> str:
        dims = self.k_dim if self.k_dim == self.v_dim else f"{self.k_dim} and {self.v_dim}"
        return f"{self.dtype} on {self.device}, {self.heads} heads of {dims}"


class Store:
    """The blocks of one model's cache. Raises BackendError when the memory cannot be had."""

    def __init__(self, layout: KVLayout, num_blocks: int, shape: Shape) -> None:
        self.layout = layout
        self.shape = shape
        self._on_gpu = shape.device.type == "cuda"
        # Layers that have been written at all: some models have layers that never are.
        self.layers_seen: set[int] = set()
        self._attends: dict[tuple[int, int, torch.dtype], bool] = {}
        self._nothing = torch.full((1, 1, 1, 1), torch.nan, dtype=shape.dtype, device=shape.device)
        self.pool = DevicePool(layout, num_blocks, device=pool_device(shape.device))

    @property
    def stream(self) -> AnyStream | None:
        """Where the model's kernels go; None: the pool's own, on the host."""
        return torch.cuda.current_stream(self.shape.device).cuda_stream if self._on_gpu else None

    def apply(self, plan: StepPlan) -> None:
        """Carry out a plan in front of the model's kernels."""
        self.pool.apply(plan, stream=self.stream)

    def upload(self, *arrays: npt.NDArray[Any]) -> Sequence[Any]:
        """NumPy arrays as the pool's methods take them; on a GPU in one transfer. Largest elements first."""
        if not self._on_gpu:
            return [np.array(array) for array in arrays]
        packed = torch.from_numpy(np.concatenate([np.ascontiguousarray(array).view(np.uint8) for array in arrays]))
        moved = packed.to(self.shape.device, non_blocking=True)
        places = moved.split([array.nbytes for array in arrays])
        kinds = {8: torch.int64, 4: torch.int32}
        return [place.view(kinds[array.itemsize]) for place, array in zip(places, arrays, strict=True)]

    def integers(self, values: torch.Tensor) -> Any:
        """An integer tensor of the device as the pool's methods take it."""
        return values if self._on_gpu else values.numpy()

    def write(self, layer: int, k: torch.Tensor, v: torch.Tensor, slots: Any) -> None:
        """Put K and V [rows, heads, tokens, dim] into slots, row by row."""
        self.pool.write_kv(layer, _by_token(k), _by_token(v), slots, stream=self.stream)

    def gather(self, layer: int, slots: Any, batch: int) -> tuple[torch.Tensor, torch.Tensor]:
        """K and V [batch, heads, tokens, dim] of slots, row by row: new tensors."""
        kind = self.shape
        k, v = (
            torch.empty((len(slots), kind.heads, dim), dtype=kind.dtype, device=kind.device)
            for dim in (kind.k_dim, kind.v_dim)
        )
        self.pool.gather_kv(layer, slots, k, v, stream=self.stream)
        return _by_head(k, batch), _by_head(v, batch)

    def stand_ins(self, batch: int, tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
        """K and V of the right sizes that take no memory; NaN, so that whoever computes with them is found out."""
        heads = self.shape.heads
        k, v = (self._nothing.expand(batch, heads, tokens, dim) for dim in (self.shape.k_dim, self.shape.v_dim))
        return k, v

    def can_attend(self, query: torch.Tensor) -> bool:
        """Whether the decode kernel takes queries [batch, heads, tokens, dim]."""
        key = (query.shape[1], query.shape[2], query.dtype)
        if key not in self._attends:
            self._attends[key] = query.shape[2] == 1 and self._has_kernel(query)
        return self._attends[key]

    def _has_kernel(self, query: torch.Tensor) -> bool:
        kind, kept = self.shape, self.layout
        asked = dtype_of(query.dtype).name
        if kept.dtype in COMPUTE_DTYPES and kept.dtype != asked:
            return False
        ratio = query.shape[1] // kind.heads
        try:
            shape = DecodeShape(kind.k_dim, ratio, kept.block_size, asked, kept.dtype, kept.scales)
            if self._on_gpu:
                check_decode_shape(shape, kind.v_dim)
        except InvalidArgumentError:
            return False
        return True

    def attend(
        self,
        layer: int,
        queries: torch.Tensor,
        places: tuple[Any, Any, Any],
        scores: tuple[float | None, float | None],
    ) -> torch.Tensor:
        """Attention of queries [batch, heads, dim] over the blocks in place: [batch, heads, v dim].

        places: rows of the device's block tables, lengths, and the first tokens seen (None: 0), int32 [batch] each.
        scores: see Step.attend.
        """
        rows, lengths, starts = places
        batch, heads, dim = queries.shape
        out = torch.empty((batch, heads, self.shape.v_dim), dtype=queries.dtype, device=queries.device)
        scale, softcap = scores
        softmax_scale = dim**-0.5 if scale is None else scale
        options = {"rows": rows, "starts": starts, "softmax_scale": softmax_scale, "softcap": softcap}
        options["stream"] = self.stream
        self.pool.decode_attention(layer, queries.detach(), lengths, out, **options)
        return out


def pool_device(device: torch.device) -> str:
    """A PyTorch device in the pool's words. Raises InvalidArgumentError."""
    if device.type == "cpu":
        return "host"
    if device.type == "cuda":
        return f"cuda:{torch.cuda.current_device() if device.index is None else device.index}"
    raise InvalidArgumentError(f"device {device} has no memory that pagedkv knows; move the model to the CPU or a GPU")


def _by_token(states: torch.Tensor) -> torch.Tensor:
    # Models make these by transposing [batch, tokens, heads, dim]: mostly no copy.
    batch, heads, tokens, dim = states.shape
    flat = states.detach().transpose(1, 2).reshape(batch * tokens, heads, dim)
    return flat if flat.stride(-1) == 1 else flat.contiguous()


def _by_head(states: torch.Tensor, batch: int) -> torch.Tensor:
    return states.unflatten(0, (batch, -1)).transpose(1, 2)
