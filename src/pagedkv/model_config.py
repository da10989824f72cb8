"""Reading a Hugging Face config.json: how many layers, KV heads and elements a head a model keeps.

A family names the fields it uses; nothing is guessed for a model type that is not listed. Where a file leaves a field
out, what Transformers' own class has for it is taken only where that class says so (an absent number of KV heads is the
number of heads, an absent head size is hidden size / heads).
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from pagedkv.arguments import INT32_MAX, whole_number
from pagedkv.dtypes import DTYPES, dtype_of
from pagedkv.errors import InvalidArgumentError

Fields = Mapping[str, Any]
# What Transformers computes in when a config names no dtype.
_DEFAULT_DTYPE = "float32"
_GENERIC = ("num_hidden_layers", "num_key_value_heads", "head_dim")


class SlidingWindowWarning(UserWarning):
    """Layers that attend to a window only are stored as full attention: every token keeps its block."""


@dataclass(frozen=True, slots=True)
class ModelShape:
    """What a layout needs of a model, for one tensor-parallel rank. v_head_dim is 0 for a latent layout.

    sliding_layers: how many of the layers attend to a window only; they are stored as full attention.
    """

    num_layers: int
    num_kv_heads: int
    head_dim: int
    v_head_dim: int
    dtype: str
    sliding_layers: int = 0


def read_shape(config: str | PathLike[str] | Mapping[str, Any], tensor_parallel: int = 1) -> ModelShape:
    """The shape that a config.json (its path, its folder, its content, or Transformers' object of it) describes.

    tensor_parallel: ranks that share the KV heads: each has an equal share, or one head where there are more ranks than
    heads (replicated); a latent vector is whole on every rank.
    Raises InvalidArgumentError for an unknown model type (it names the fields), a missing field, a value that makes no
    sense, heads that the ranks cannot share. Modifies nothing.
    """
    ranks = whole_number(tensor_parallel, "tensor_parallel", minimum=1, maximum=INT32_MAX)
    outer = read_config(config)
    fields, family = _family(outer)
    # The whole model's before the language model's: that is what Transformers loads all of it in.
    dtype = next((str(f[key]) for f in (outer, fields) for key in ("dtype", "torch_dtype") if f.get(key)), None)
    layers = _number(fields, family.layers)
    heads, head_dim, v_head_dim = family.read(fields, family)
    if v_head_dim:
        heads = _share(heads, ranks)
    return ModelShape(layers, heads, head_dim, v_head_dim, dtype or _DEFAULT_DTYPE, family.sliding(fields, layers))


def language_fields(config: str | PathLike[str] | Mapping[str, Any]) -> Fields:
    """The fields of the language model in a config. Raises InvalidArgumentError as `read_shape` does."""
    return _family(read_config(config))[0]


def cache_dtype(shape: ModelShape, asked: object) -> str:
    """The format asked for; None: the model's own. Raises InvalidArgumentError where no cache is kept in it."""
    if asked is not None:
        return dtype_of(asked).name
    try:
        return dtype_of(shape.dtype).name
    except InvalidArgumentError:
        raise InvalidArgumentError(
            f"the config's dtype is {shape.dtype!r}, which is no format of a cache; give dtype=, one of "
            f"{', '.join(DTYPES)}"
        ) from None


def warn_of_windows(shape: ModelShape) -> None:
    """Say it, once for each place that asks, where layers with a sliding window are stored as full attention."""
    if shape.sliding_layers:
        warnings.warn(
            f"{shape.sliding_layers} of {shape.num_layers} layers have a sliding window; they are stored as full "
            "attention: every token keeps its keys and values until its sequence is freed",
            SlidingWindowWarning,
            stacklevel=3,
        )


Dims = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class _Family:
    """How a family's config is read: `read` gives (KV heads, K's head size, V's head size)."""

    read: Callable[[Fields, _Family], Dims]
    layers: str = "num_hidden_layers"
    heads: str = "num_attention_heads"
    hidden: str = "hidden_size"
    kv_heads: str | None = "num_key_value_heads"
    own_head_dim: bool = False
    sliding: Callable[[Fields, int], int] = lambda fields, layers: 0


def _grouped(fields: Fields, family: _Family) -> Dims:
    """K and V of one head size."""
    given = fields.get("head_dim")
    if given is None and family.own_head_dim:
        raise _missing(fields, ["head_dim"])
    if family.kv_heads is not None and fields.get(family.kv_heads) is not None:
        kv_heads = _number(fields, family.kv_heads)
        if fields.get(family.heads) is not None and (heads := _number(fields, family.heads)) % kv_heads:
            raise InvalidArgumentError(
                f"{family.heads} {heads} is no multiple of {family.kv_heads} {kv_heads}; give numbers that divide"
            )
    else:
        kv_heads = _number(fields, family.heads)
    dim = _hidden_share(fields, family) if given is None else _number(fields, "head_dim")
    return kv_heads, dim, dim


def _falcon(fields: Fields, family: _Family) -> Dims:
    """One KV head, as many as heads, or (new decoder architecture) a number of its own."""
    new = _flag(fields, "new_decoder_architecture", otherwise=False)
    if _flag(fields, "multi_query", otherwise=True) and not new:
        dim = _hidden_share(fields, family)
        return 1, dim, dim
    return _grouped(fields, family)


def _latent(fields: Fields, family: _Family) -> Dims:
    """One vector: the compressed K and V, then the part of K that carries the position."""
    return 1, _number(fields, "kv_lora_rank") + _number(fields, "qk_rope_head_dim"), 0


def _every_layer(fields: Fields, layers: int) -> int:
    return layers if fields.get("sliding_window") else 0


def _listed(otherwise: Callable[[Fields, int], int]) -> Callable[[Fields, int], int]:
    """The layers that `layer_types` lists as sliding; older files have no such list."""

    def count(fields: Fields, layers: int) -> int:
        kinds = fields.get("layer_types")
        if kinds is None:
            return otherwise(fields, layers)
        if not isinstance(kinds, (list, tuple)):
            raise InvalidArgumentError(f"layer_types is {kinds!r}; give a list, one entry a layer")
        strange = sorted({str(kind) for kind in kinds} - {"full_attention", "sliding_attention"})
        if strange or len(kinds) != layers:
            raise InvalidArgumentError(
                f"layer_types has {len(kinds)} entries for {layers} layers, {', '.join(strange) or 'none unknown'} "
                "among them; only full_attention and sliding_attention keep keys and values for every token"
            )
        return kinds.count("sliding_attention")

    return count


def _upper_layers(fields: Fields, layers: int) -> int:
    """Qwen: layers from max_window_layers on, where windows are switched on."""
    if not _flag(fields, "use_sliding_window", otherwise=False) or not fields.get("sliding_window"):
        return 0
    first = fields.get("max_window_layers")
    return 0 if first is None else max(0, layers - whole_number(first, "max_window_layers"))


def _all_but_every(default: int) -> Callable[[Fields, int], int]:
    """Gemma, GPT-OSS: of `pattern` layers the last one is full."""

    def count(fields: Fields, layers: int) -> int:
        pattern = fields.get("sliding_window_pattern") or fields.get("_sliding_window_pattern") or default
        every = whole_number(pattern, "sliding_window_pattern", minimum=1)
        return layers - layers // every if fields.get("sliding_window") else 0

    return count


_PLAIN = _Family(_grouped)
_WINDOWED = _Family(_grouped, sliding=_every_layer)
_QWEN = _Family(_grouped, sliding=_listed(_upper_layers))
_QWEN3 = _Family(_grouped, own_head_dim=True, sliding=_listed(_upper_layers))
_PAIRS = _Family(_grouped, own_head_dim=True, sliding=_listed(_all_but_every(2)))
_DEEPSEEK = _Family(_latent)
_FAMILIES = {
    "llama": _PLAIN,
    "mistral": _WINDOWED,
    "mixtral": _WINDOWED,
    "qwen2": _QWEN,
    "qwen2_moe": _QWEN,
    "qwen3": _QWEN3,
    "qwen3_moe": _QWEN,
    "gemma": _Family(_grouped, own_head_dim=True),
    "gemma2": _PAIRS,
    "gemma3_text": _Family(_grouped, own_head_dim=True, sliding=_listed(_all_but_every(6))),
    "phi": _PLAIN,
    "phi3": _WINDOWED,
    "phimoe": _WINDOWED,
    "gpt_oss": _PAIRS,
    "deepseek_v2": _DEEPSEEK,
    "deepseek_v3": _DEEPSEEK,
    "opt": _Family(_grouped, kv_heads=None),
    "gpt2": _Family(_grouped, "n_layer", "n_head", "n_embd", kv_heads=None),
    "falcon": _Family(_falcon, kv_heads="num_kv_heads"),
}
MODEL_TYPES = tuple(_FAMILIES)
# Files of models with images leave out of text_config what equals Transformers' class; Gemma 3's do.
_NESTED_DEFAULTS: dict[str, Fields] = {
    "gemma3_text": {
        "num_hidden_layers": 26, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
        "sliding_window": 4096,
    }
}  # fmt: skip


def _family(outer: Fields) -> tuple[Fields, _Family]:
    """The fields of the language model in a config, and how to read them."""
    fields = outer
    if isinstance(outer.get("text_config"), Mapping):
        inner: Fields = outer["text_config"]
        fields = {**_NESTED_DEFAULTS.get(str(inner.get("model_type")), {}), **inner}
    if isinstance(kind := fields.get("model_type"), str) and kind in _FAMILIES:
        return fields, _FAMILIES[kind]
    missing = [name for name in _GENERIC if fields.get(name) is None]
    has = f"it lacks {', '.join(missing)}" if missing else f"it has {', '.join(_GENERIC)}"
    raise InvalidArgumentError(
        f"model type {kind!r} is not known; known are {', '.join(MODEL_TYPES)}. If every layer is plain attention, "
        f"give KVLayout num_layers, num_kv_heads and head_dim yourself: this config would name them "
        f"{', '.join(_GENERIC)}, and {has}"
    )


def read_config(config: object) -> Fields:
    """The content of a config.json, its folder, a dict, or Transformers' object. Raises InvalidArgumentError."""
    to_dict = getattr(config, "to_dict", None)
    if callable(to_dict):
        config = to_dict()
    if isinstance(config, Mapping):
        return config
    if not isinstance(config, (str, PathLike)):
        raise InvalidArgumentError(f"config is a {type(config).__name__}; give a config.json, its folder, or a dict")
    file = Path(config)
    try:
        if file.is_dir():
            file = file / "config.json"
        read = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidArgumentError(
            f"config {str(file)!r} cannot be read ({error.strerror}); give a file of this machine; none is downloaded"
        ) from None
    except (RecursionError, ValueError) as error:
        raise InvalidArgumentError(f"config {str(file)!r} is no JSON in UTF-8 ({error}); give a config.json") from None
    if not isinstance(read, dict):
        raise InvalidArgumentError(f"config {str(file)!r} holds a {type(read).__name__}; give a config.json")
    return read


def _number(fields: Fields, name: str) -> int:
    if fields.get(name) is None:
        raise _missing(fields, [name])
    return whole_number(fields[name], name, minimum=1, maximum=INT32_MAX)


def _flag(fields: Fields, name: str, *, otherwise: bool) -> bool:
    value = fields.get(name)
    if value is not None and not isinstance(value, bool):
        raise InvalidArgumentError(f"{name} is {value!r}; give true or false")
    return otherwise if value is None else value


def _missing(fields: Fields, names: list[str]) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"the config of a {fields.get('model_type')!r} model lacks {', '.join(names)}; give all of it, or "
        "Transformers' config object, which knows what files leave out"
    )


def _hidden_share(fields: Fields, family: _Family) -> int:
    hidden, heads = _number(fields, family.hidden), _number(fields, family.heads)
    if hidden % heads:
        raise InvalidArgumentError(
            f"{family.hidden} {hidden} is no multiple of {family.heads} {heads}, and there is no head_dim; give one"
        )
    return hidden // heads


def _share(heads: int, ranks: int) -> int:
    if heads % ranks and ranks % heads:
        raise InvalidArgumentError(
            f"{heads} KV heads cannot be shared by {ranks} ranks; give a tensor_parallel that divides them, or a "
            "multiple of them"
        )
    return max(1, heads // ranks)
