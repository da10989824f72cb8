"""The attention implementation "pagedkv": decoding reads the blocks in place, all else is PyTorch's own attention."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import ReferenceType, ref

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from pagedkv.errors import InvalidArgumentError
from pagedkv.integrations.transformers.step import Step

NAME = "pagedkv"
# How `PagedCache.update` tells the attention function where K and V are: an attribute of K, for models without keyword
# arguments and for layers that attend to another layer's K; and a keyword argument, which a changed K cannot lose.
_HANDLE = "pagedkv_layer"
# What some models add to the scores; no kernel knows it, and leaving it out would be wrong silently.
_SINKS = "s_aux"
_sdpa: Callable[..., tuple[torch.Tensor, None]] = sdpa_attention_forward


@dataclass(slots=True)
class PagedLayer:
    """K and V of one layer in one forward pass, not gathered."""

    step: Step
    layer: int
    # What `update` returned for K and V: the attention function must get these very tensors. Weak, because K carries
    # this object.
    key: ReferenceType[torch.Tensor]
    value: ReferenceType[torch.Tensor]

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def attend(
        self,
        module: torch.nn.Module,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: torch.Tensor | None,
        **options: Any,
    ) -> tuple[torch.Tensor, None]:
        """As paged_attention: in place, or gathered where no kernel does it. Raises InvalidArgumentError."""
        self.check(key, value, attention_mask)
        self.step.unread = None
        if not options.get("dropout") and options.get("position_bias") is None:
            scores = (options.get("scaling"), options.get("softcap"))
            out = self.step.attend(self.layer, query, attention_mask, scores)
            if out is not None:
                return out, None
        return _gathered(module, query, *self.step.gather(self.layer), attention_mask, **options)

    def check(self, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None) -> None:
        """Raises InvalidArgumentError where the model computes with K or V, which are NaN, outside its attention."""
        if key is not self.key() or value is not self.value():
            raise _not_in_place(f"layer {self.layer} changes K and V between the cache and its attention")
        if mask is not None and mask.is_floating_point() and bool(mask.isnan().any()):
            raise _not_in_place(f"the mask of layer {self.layer} has NaN: the model computes with K or V")


def _not_in_place(what: str) -> InvalidArgumentError:
    return InvalidArgumentError(f'{what}, which {NAME!r} reads in place; use model.set_attn_implementation("sdpa")')


def hand_over(step: Step, layer: int, options: object) -> tuple[torch.Tensor, torch.Tensor]:
    """Tell the attention function of a layer where its K and V are; returns what the model takes for them.

    options: the layer's keyword arguments, which models of newer versions hand to `update` for such purposes.
    """
    key, value = step.stand_ins()
    paged = PagedLayer(step, layer, ref(key), ref(value))
    setattr(key, _HANDLE, paged)
    if isinstance(options, dict):
        options[_HANDLE] = paged
    step.unread = layer
    return key, value


def register_attention() -> str:
    """Make "pagedkv" known to Transformers, for `model.set_attn_implementation("pagedkv")`; returns that name.

    With a PagedCache of the model, a step of one token a row attends over the pool's blocks in place. Prompts, chunks,
    drafts and masks with holes are gathered for PyTorch's scaled dot product attention, as is every other cache; with a
    soft cap, which that does not know, for plain matrix products. May be called again. Attention with sinks is refused
    (InvalidArgumentError): use "eager" there.
    """
    AttentionInterface.register(NAME, paged_attention)
    AttentionMaskInterface.register(NAME, sdpa_mask)
    return NAME


def paged_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """An attention function of Transformers: (output [batch, tokens, heads, dim], no weights)."""
    paged: PagedLayer | None = options.pop(_HANDLE, None) or getattr(key, _HANDLE, None)
    if options.get(_SINKS) is not None:
        raise InvalidArgumentError(
            f"this model's attention has {_SINKS}, which {NAME!r} does not compute; "
            'use model.set_attn_implementation("eager")'
        )
    attend = _gathered if paged is None else paged.attend
    return attend(module, query, key, value, attention_mask, **options)


def _gathered(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """As paged_attention, of K and V in tensors."""
    softcap = options.get("softcap")
    if softcap is None:
        return _sdpa(module, query, key, value, attention_mask, **options)
    key, value = (states.repeat_interleave(query.shape[1] // states.shape[1], dim=1) for states in (key, value))
    scale = options.get("scaling") or query.shape[-1] ** -0.5
    scores = softcap * torch.tanh(query @ key.transpose(2, 3) * scale / softcap)
    if attention_mask is None and query.shape[2] > 1:  # what PyTorch's function takes for causal, from the first token
        attention_mask = torch.ones(scores.shape[2:], dtype=torch.bool, device=query.device).tril()
    if attention_mask is not None:
        hidden = attention_mask == 0 if attention_mask.dtype == torch.bool else None
        scores = scores + attention_mask if hidden is None else scores.masked_fill(hidden, -torch.inf)
    weights = torch.softmax(scores, dim=-1, dtype=torch.float32).to(query.dtype).nan_to_num(0.0)
    weights = torch.nn.functional.dropout(weights, options.get("dropout") or 0.0, module.training)
    return (weights @ value).transpose(1, 2).contiguous(), None
