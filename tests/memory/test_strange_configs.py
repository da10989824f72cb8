"""Configs as they are found in the wild, or as no model has them: read rightly, or refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pagedkv import KVLayout
from pagedkv.errors import InvalidArgumentError
from pagedkv.model_config import read_shape

from .test_model_config import FALCON, LLAMA, QWEN2

NESTED = {"model_type": "llava_next", "text_config": {**LLAMA, "model_type": "mistral"}}


@pytest.mark.parametrize("kind", [["llama"], {"llama": 1}, {}, 3, True])
def test_a_model_type_that_is_no_text_is_not_known(kind: Any) -> None:
    for config in ({**LLAMA, "model_type": kind}, {"text_config": {**LLAMA, "model_type": kind}}):
        with pytest.raises(InvalidArgumentError, match="is not known; known are llama"):
            read_shape(config)


def test_a_files_text_in_place_of_its_path() -> None:
    with pytest.raises(InvalidArgumentError, match="cannot be read"):
        read_shape(json.dumps({**LLAMA, "architectures": ["LlamaForCausalLM"] * 20}))


def test_a_file_that_is_nested_without_end(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("[" * 100_000, encoding="utf-8")
    with pytest.raises(InvalidArgumentError, match="is no JSON"):
        read_shape(tmp_path)


@pytest.mark.parametrize("dtype", ["auto", "float64", {"": "bfloat16"}, 16, True])
def test_a_dtype_that_the_config_should_not_have(dtype: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"the config's dtype is .*; give dtype="):
        KVLayout.from_config({**LLAMA, "torch_dtype": dtype}, 16)
    assert KVLayout.from_config({**LLAMA, "torch_dtype": dtype}, 16, dtype="fp16").dtype == "float16"


def test_the_whole_models_dtype_wins_as_in_transformers() -> None:
    """LLaVA-NeXT on Mistral says float16 for the model and bfloat16 for its language model; it runs in float16."""
    assert read_shape(NESTED).dtype == "bfloat16"
    assert read_shape({**NESTED, "torch_dtype": "float16"}).dtype == "float16"
    assert read_shape({**NESTED, "dtype": "float16"}).dtype == "float16"
    assert read_shape({**LLAMA, "dtype": "float16"}).dtype == "float16"


@pytest.mark.parametrize("kv_heads", [5, 64, 33])
def test_heads_that_do_not_share_kv_heads_evenly(kv_heads: int) -> None:
    with pytest.raises(InvalidArgumentError, match=f"num_attention_heads 32 is no multiple of .* {kv_heads}"):
        read_shape({**LLAMA, "num_key_value_heads": kv_heads})


@pytest.mark.parametrize(("config", "flag"), [
    ({**FALCON, "num_kv_heads": 1}, "new_decoder_architecture"), (FALCON, "multi_query"), (QWEN2, "use_sliding_window"),
])  # fmt: skip
def test_flags_are_true_or_false(config: dict[str, Any], flag: str) -> None:
    for bad in ("false", 0, [False]):
        with pytest.raises(InvalidArgumentError, match=f"{flag} is .*; give true or false"):
            read_shape({**config, flag: bad})
    assert read_shape({**config, flag: None}) == read_shape({k: v for k, v in config.items() if k != flag})


def test_what_a_nested_file_leaves_out_and_where_to_get_it() -> None:
    """LLaVA 1.5's text_config has no number of layers: Transformers' class knows it."""
    short = {"model_type": "llava", "text_config": {"model_type": "llama", "vocab_size": 32064}}
    with pytest.raises(InvalidArgumentError, match=r"lacks num_hidden_layers; .*Transformers' config object"):
        read_shape(short)
