"""What the cache has to know of a model's config before it sees the first K and V."""

from __future__ import annotations

from typing import Any

from pagedkv.arguments import whole_number
from pagedkv.errors import InvalidArgumentError

# Kinds of layers that keep K and V of every token; those with a window are stored in full.
_KEPT = ("full_attention", "sliding_attention", "chunked_attention")


def decoder_config(model: Any) -> Any:
    """The config of a model's decoder, from the model or its config. Raises InvalidArgumentError."""
    config = getattr(model, "config", model)
    if not hasattr(config, "get_text_config"):
        raise InvalidArgumentError(f"a {type(model).__name__} is no model of Transformers; give a model or its config")
    if getattr(config, "is_encoder_decoder", False):
        raise InvalidArgumentError(f"{_name(config)} is an encoder-decoder; a PagedCache is for decoder-only models")
    decoder = config.get_text_config(decoder=True)
    others = sorted(set(getattr(decoder, "layer_types", None) or ()) - set(_KEPT))
    if others:
        raise InvalidArgumentError(
            f"{_name(config)} has layers of kind {', '.join(others)}; a PagedCache holds K and V of {', '.join(_KEPT)}"
        )
    return decoder


def num_layers(decoder: Any) -> int:
    """Layers of a decoder config. Raises InvalidArgumentError."""
    return whole_number(getattr(decoder, "num_hidden_layers", None), "num_hidden_layers of the config", minimum=1)


def _name(config: Any) -> str:
    return str(getattr(config, "model_type", type(config).__name__))
