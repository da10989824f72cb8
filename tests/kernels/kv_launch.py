"""write_kv, write_kv_scaled and gather_kv launched on the host: a pool's bytes in, the parts' bytes out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from pagedkv import KVLayout
from pagedkv.dtypes import DTYPES
from pagedkv.kernels import kv_reference
from pagedkv.kernels.kv_shapes import KVShape, gather_shape, scaled_shape, write_shape
from pagedkv.kernels.number_formats import from_float32

from .host_build import Argument, HostKernels

Array = npt.NDArray[Any]
PARTS = ("k", "v", "k_scale", "v_scale")


@dataclass
class Case:
    """Tokens of one layer on their way into, or out of, a pool of random bytes."""

    layout: KVLayout
    given: str
    slots: list[int]
    blocks: int = 5
    layer: int = 1
    scales: tuple[float, float] = (1.0, 1.0)
    extra: int = 0  # elements between two heads of the tokens
    tokens: dict[str, Array] = field(init=False)
    pool: Array = field(init=False)

    def __post_init__(self) -> None:
        random = np.random.default_rng(len(self.slots))
        self.pool = random.integers(0, 256, self.layout.pool_bytes(self.blocks), np.uint8)
        self.tokens = {}
        for name, dim in (("k", self.layout.head_dim), ("v", self.layout.value_dim)):
            values = random.normal(0, 30, (len(self.slots), self.layout.num_kv_heads, dim + self.extra))
            edges = [np.nan, np.inf, -np.inf, 1e38, -1e-3, 2e-5, -3e-8, 0.0][: values.size]
            values.reshape(-1)[: len(edges)] = edges
            if dim:
                self.tokens[name] = from_float32(values.astype(np.float32), self.given)

    def inner(self, name: str) -> Array:
        """The tokens' own elements."""
        return self.tokens[name][..., : self.tokens[name].shape[2] - self.extra]

    def shape(self, kernel: str) -> KVShape:
        aligned = (16 if not self.extra else DTYPES[self.given].itemsize * (self.extra & -self.extra), 16)
        if kernel == "write_kv_scaled":
            return scaled_shape(self.layout, self.given, len(self.slots), aligned)
        choose = write_shape if kernel == "write_kv" else gather_shape
        return choose(self.layout, self.given, len(self.slots), aligned, scaled=self.scales != (1.0, 1.0))

    def places(self) -> dict[str, Array]:
        """A copy of the pool's bytes from each part's first one on: what the kernel is given."""
        offsets = {part.name: self._view(part.name).offset for part in self.layout.parts}
        return {name: self.pool[offset:].copy() for name, offset in offsets.items()}

    def launch(self, kernels: HostKernels, kernel: str, places: Mapping[str, Argument], **options: Any) -> None:
        """Run `kernel`, or the executable `program`, on `places`."""
        shape = self.shape(kernel)
        given: list[Argument] = [places.get(name) for name in PARTS]
        steps = [self._view(name).strides[0] if name in places else 0 for name in PARTS]
        tokens = [self.tokens.get(name) for name in ("k", "v")]
        strides = [step for array in tokens for step in ((0, 0) if array is None else array.strides[:2])]
        arguments: list[Argument] = [*given[:2], *steps[:2], *given[2:], *steps[2:], *tokens, *strides]
        arguments += [np.array(self.slots, np.int64), len(self.slots), self.blocks * self.layout.block_size]
        arguments += [shape.k_ctas, *(int(np.float32(scale).view(np.uint32)) for scale in self.scales)]
        program = options.pop("program", kernel)
        grid = (shape.k_ctas + shape.v_ctas, 1)
        kernels.launch(program, shape.macros, grid, shape.threads, arguments, **options)

    def written(self) -> dict[str, Array]:
        """What `places` must hold after a write: each part's own bytes are the reference's, all others the pool's."""
        rows = self.pool.copy()
        for name, scale in zip(("k", "v"), self.scales, strict=True):
            if name in self.tokens:
                part = kv_reference.layer_part(rows, self.layout, self.blocks, self.layer, name)
                slots = np.array(self.slots, np.int64)
                kv_reference.write_part(part, self.inner(name), self.given, slots, scale)
        found = {}
        for name, place in self.places().items():
            view = self._view(name)
            storage = view.part.dtype.storage
            target: Array = np.ndarray(view.shape, storage, place, 0, view.strides)
            target[...] = np.ndarray(view.shape, storage, rows, view.offset, view.strides)
            found[name] = place
        return found

    def gathered(self) -> dict[str, Array]:
        """What `tokens` must hold after a gather; what lies between heads stays."""
        found = {name: array.copy() for name, array in self.tokens.items()}
        for name, scale in zip(("k", "v"), self.scales, strict=True):
            if name in found:
                part = kv_reference.layer_part(self.pool, self.layout, self.blocks, self.layer, name)
                out = found[name][..., : found[name].shape[2] - self.extra]
                kv_reference.gather_part(part, np.array(self.slots, np.int64), out, self.given, scale)
        return found

    def _view(self, name: str) -> Any:
        return self.layout.part_view(self.layer, name, self.blocks)
