"""Random layouts of keys and values, and where every element of one lies, counted by hand."""

from __future__ import annotations

from itertools import product

from hypothesis import strategies as st

from pagedkv import KVLayout
from pagedkv.dtypes import DTYPES
from pagedkv.kv_layout import PartView

EIGHT_BITS = tuple(name for name, kind in DTYPES.items() if kind.itemsize == 1)


@st.composite
def kv_layouts(draw: st.DrawFn) -> KVLayout:
    """Small layouts of every kind: both orders, NHD and HND, scales, latent, K and V of different head sizes."""
    dtype = draw(st.sampled_from(sorted(DTYPES)))
    scales = dtype in EIGHT_BITS and draw(st.booleans())
    step = 4 if scales else 1  # scales need parts of whole floats
    return KVLayout(
        draw(st.integers(1, 4)),
        draw(st.integers(1, 4)),
        step * draw(st.integers(1, 5)),
        dtype,
        draw(st.integers(1, 5)),
        order=draw(st.sampled_from(["block", "layer"])),
        kv_layout=draw(st.sampled_from(["NHD", "HND"])),
        v_head_dim=draw(st.one_of(st.none(), st.integers(0, 5).map(lambda n: step * n))),
        scales=scales,
    )


def element_offsets(view: PartView, block: int) -> list[int]:
    """The offset of every element of one block in a part."""
    inside = product(*(range(n) for n in view.shape[1:]))
    first = view.offset + block * view.strides[0]
    return [first + sum(i * s for i, s in zip(place, view.strides[1:], strict=True)) for place in inside]
