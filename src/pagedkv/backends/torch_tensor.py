"""PyTorch's tensors by their own attributes, without importing PyTorch.

A step of a model describes its tensors layer by layer, hundreds of them: through DLPack each costs the host as much as
a launch, and more where it makes system calls slow.
"""

from __future__ import annotations

from typing import Any

from pagedkv.backends.dlpack import CUDA, HOST, REFUSALS, Device, TensorExtent
from pagedkv.dtypes import DTYPES

_NAMES = {f"torch.{name}": name for name in (*DTYPES, "int32", "int64", "uint8", "bool", "float64")}
# Subclasses may be anything: those go through DLPack.
_KINDS = {("torch", "Tensor"), ("torch.nn.parameter", "Parameter")}


def torch_extent(value: Any) -> TensorExtent | None:
    """Where a plain torch.Tensor lies on the host or a GPU; None for all else, and for tensors that DLPack refuses."""
    kind = type(value)
    if (kind.__module__, kind.__name__) not in _KINDS:
        return None
    try:
        name = _NAMES.get(str(value.dtype))
        place = value.device
        if name is None or place.type not in ("cpu", "cuda") or value.requires_grad or value.is_neg():
            return None
        size = value.element_size()
        device = HOST if place.type == "cpu" else Device(CUDA, place.index)
        strides = tuple(step * size for step in value.stride())
        return TensorExtent(value.data_ptr(), tuple(value.shape), size, name, strides, device)
    except REFUSALS:  # no strides (sparse), or no memory (transforms)
        return None
