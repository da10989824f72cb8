"""KVLayout: keys and values of a model inside a block.

One layer's share of a block is its parts, one after another: K, V, then the scales of K and of V where there are any.
Part by part, with block_size = B, heads H, K's head size D:

    NHD  [B, H, D]        HND  [H, B, D]        scales [B, H] or [H, B], float32

order="block" (the default) is [blocks][layers][parts]: everything of a block is one extent. order="layer" is
[layers][parts][blocks]: K of a layer is one compact array over all blocks, as kernels written for one layer's pool
want it. With K and V alike, a layer is [blocks, 2, B, H, D] or [2, blocks, B, H, D] in these orders.
Layers with a sliding window are stored as full attention: every token keeps its block.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import gcd
from os import PathLike
from typing import Any, Literal, Self

from pagedkv.arguments import INT32_MAX, whole_number
from pagedkv.dtypes import DTYPES, DType, dtype_of
from pagedkv.errors import InvalidArgumentError
from pagedkv.layout import BlockLayout, Extents, place_of

_SCALE = DTYPES["float32"]
_ALIGNMENT = 256
_SCALED = ("float8_e4m3fn", "float8_e5m2", "int8")


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a layer: K ("k"), V ("v"), or their scales ("k_scale", "v_scale"). dim is 1 for scales."""

    name: str
    dtype: DType
    heads: int
    dim: int

    @property
    def token_bytes(self) -> int:
        """Bytes of a token in this part."""
        return self.heads * self.dim * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class PartView:
    """One part of one layer over all blocks of a pool: offset of its first byte, shape, strides in bytes.

    shape: (blocks, block_size, heads, dim) in NHD, (blocks, heads, block_size, dim) in HND; scales without the last.
    """

    part: Part
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class KVLayout(BlockLayout):
    """K and V of `num_layers` layers, `num_kv_heads` heads of `head_dim` elements, `block_size` tokens a block.

    dtype: a name ("bfloat16", "float8_e4m3fn", "int8"; see dtypes.DTYPES) or a framework's dtype. order: "block" or
    "layer". kv_layout: "NHD" or "HND". v_head_dim: V's head size, None: head_dim; 0: there is no V (a latent layout,
    one vector a token and layer). scales: one float32 a token and head, for K and for V; 8-bit formats only.
    Raises InvalidArgumentError. Immutable; knows no device.
    """

    num_layers: int
    num_kv_heads: int
    head_dim: int
    dtype: str
    block_size: int
    order: Literal["block", "layer"] = "block"
    kv_layout: Literal["NHD", "HND"] = "NHD"
    v_head_dim: int | None = None
    scales: bool = False

    def __post_init__(self) -> None:
        for name in ("num_layers", "num_kv_heads", "head_dim", "block_size"):
            object.__setattr__(self, name, whole_number(getattr(self, name), name, minimum=1, maximum=INT32_MAX))
        size = self.head_dim if self.v_head_dim is None else self.v_head_dim
        object.__setattr__(self, "v_head_dim", whole_number(size, "v_head_dim", maximum=INT32_MAX))
        object.__setattr__(self, "dtype", dtype_of(self.dtype).name)
        for name, allowed in (("order", ("block", "layer")), ("kv_layout", ("NHD", "HND"))):
            given = getattr(self, name)
            if not isinstance(given, str) or given not in allowed:
                raise InvalidArgumentError(f"{name} is {given!r}; give {' or '.join(map(repr, allowed))}")
        self._check_scales()
        self._check_block()

    @classmethod
    def latent(cls, num_layers: int, latent_dim: int, dtype: object, block_size: int, **options: Any) -> Self:
        """One vector of `latent_dim` elements a token and layer (multi-head latent attention), no V."""
        return cls(num_layers, 1, latent_dim, dtype, block_size, v_head_dim=0, **options)  # type: ignore[arg-type]

    @classmethod
    def from_config(
        cls,
        config: str | PathLike[str] | Mapping[str, Any],
        block_size: int,
        *,
        dtype: object = None,
        tensor_parallel: int = 1,
        **options: Any,
    ) -> Self:
        """The layout of a Hugging Face model, from its config.json (a path or its folder) or that file's content.

        dtype: None takes the model's own, float32 where it names none. tensor_parallel: ranks that share the heads;
        each rank's layout is the same, and fewer KV heads than ranks are replicated. options: order, kv_layout, scales.
        Layers with a sliding window are stored as full attention; a SlidingWindowWarning says how many.
        Raises InvalidArgumentError for a model type that is not known or a field that is missing or makes no sense.
        Reads one file at most, nothing from a network. See pagedkv.model_config.
        """
        from pagedkv.model_config import cache_dtype, read_shape, warn_of_windows

        shape = read_shape(config, tensor_parallel)
        warn_of_windows(shape)
        return cls(
            shape.num_layers,
            shape.num_kv_heads,
            shape.head_dim,
            cache_dtype(shape, dtype),
            block_size,
            v_head_dim=shape.v_head_dim,
            **options,
        )

    @property
    def element(self) -> DType:
        """The format of K and V."""
        return DTYPES[self.dtype]

    @property
    def itemsize(self) -> int:
        """Bytes of an element of K and V."""
        return self.element.itemsize

    @property
    def alignment(self) -> int:
        """The vector of every token and head of K and V starts at a multiple of this many bytes, at most 256, from the
        pool's start. (A pool starts at a multiple of 256, one in adopted memory at a multiple of 16.)
        """
        # One block is the hardest case of a layer-major pool: more blocks only put more factors into the offsets.
        vectors = (part.dim * part.dtype.itemsize for part in self.parts if part.dtype is self.element)
        return gcd(_ALIGNMENT, self.layer_bytes, *vectors)

    @property
    def value_dim(self) -> int:
        """V's head size; 0 in a latent layout."""
        return self.v_head_dim or 0

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts of a layer in the order of their bytes."""
        return _parts(self)

    @property
    def token_bytes(self) -> int:  # type: ignore[override]
        """Bytes of a token over all layers, K and V, scales included."""
        return self.num_layers * self._token_layer_bytes

    @property
    def layer_bytes(self) -> int:
        """Bytes of one layer's share of a block."""
        return self.block_size * self._token_layer_bytes

    def extents(self, num_blocks: int) -> Extents:
        """Where the blocks lie: one extent a block, or one for each layer and part."""
        if self.order == "block":
            return BlockLayout.extents(self, num_blocks)
        total = self.pool_bytes(num_blocks)
        count = total // self.block_bytes  # a Python int, also where NumPy's came in
        sizes = tuple(part.token_bytes * self.block_size for part in self.parts)
        starts = tuple(count * sum(sizes[:i]) for i in range(len(sizes)))
        return Extents(self.num_layers, total // self.num_layers, sizes, starts)

    def part_view(self, layer: int, name: str, num_blocks: int) -> PartView:
        """Part `name` of layer `layer` over all blocks. Raises InvalidArgumentError for what there is not."""
        index = whole_number(layer, "layer", maximum=self.num_layers - 1)
        count = whole_number(num_blocks, "num_blocks", minimum=1, maximum=INT32_MAX)
        if name not in (part.name for part in self.parts):
            raise InvalidArgumentError(
                f"part {name!r} is not there; give one of {', '.join(part.name for part in self.parts)}"
            )
        return _part_view(self, index, name, count)

    def token_offset(self, block_id: int, offset: int, num_blocks: int, layer: int = 0, part: str = "k") -> int:
        """Bytes from the start of a pool of `num_blocks` blocks to head 0 of token `offset` of a block.

        Raises InvalidArgumentError for a block outside, the offset, layer or part.
        """
        block, place = place_of(self, block_id, offset, num_blocks)
        view = self.part_view(layer, part, num_blocks)
        token_axis, _ = token_and_head_axes(self)
        return view.offset + block * view.strides[0] + place * view.strides[token_axis]

    @property
    def _token_layer_bytes(self) -> int:
        return sum(part.token_bytes for part in self.parts)

    def _check_scales(self) -> None:
        if not isinstance(self.scales, bool):
            raise InvalidArgumentError(f"scales is {self.scales!r}; give True or False")
        if not self.scales:
            return
        if self.dtype not in _SCALED:
            raise InvalidArgumentError(f"scales are for {', '.join(_SCALED)}, the layout has {self.dtype}")
        for part in self.parts[:2]:
            if part.dim and part.token_bytes * self.block_size % _SCALE.itemsize:
                raise InvalidArgumentError(
                    f"{part.name} of a block is {part.token_bytes * self.block_size} bytes; its float32 scales need a "
                    "multiple of 4: a block_size that is one always does"
                )


def token_and_head_axes(layout: KVLayout) -> tuple[int, int]:
    """Of a part's shape and strides."""
    return (1, 2) if layout.kv_layout == "NHD" else (2, 1)


# Every launch of a layer's kernels asks for these.
@lru_cache(maxsize=64)
def _parts(layout: KVLayout) -> tuple[Part, ...]:
    dims = [("k", layout.head_dim), ("v", layout.value_dim)]
    found = [Part(name, layout.element, layout.num_kv_heads, dim) for name, dim in dims if dim]
    if layout.scales:
        found += [Part(f"{part.name}_scale", _SCALE, layout.num_kv_heads, 1) for part in found]
    return tuple(found)


@lru_cache(maxsize=4096)
def _part_view(layout: KVLayout, layer: int, name: str, num_blocks: int) -> PartView:
    names = [part.name for part in layout.parts]
    part = layout.parts[names.index(name)]
    before = sum(p.token_bytes for p in layout.parts[: names.index(name)]) * layout.block_size
    size = part.token_bytes * layout.block_size
    if layout.order == "block":
        offset, block_stride = layer * layout.layer_bytes + before, layout.block_bytes
    else:
        offset, block_stride = num_blocks * (layer * layout.layer_bytes + before), size
    element = part.dtype.itemsize
    head, token = part.dim * element, part.token_bytes
    shape: tuple[int, ...] = (num_blocks, layout.block_size, part.heads, part.dim)
    strides: tuple[int, ...] = (block_stride, token, head, element)
    if layout.kv_layout == "HND":
        shape = (num_blocks, part.heads, layout.block_size, part.dim)
        strides = (block_stride, head * layout.block_size, head, element)
    last = 3 if name.endswith("_scale") else 4
    return PartView(part, offset, shape[:last], strides[:last])
