"""A config.json becomes the layout of its model: the shapes are those of published models."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

from pagedkv import KVLayout
from pagedkv.errors import InvalidArgumentError
from pagedkv.model_config import MODEL_TYPES, ModelShape, SlidingWindowWarning, read_shape

LLAMA = {  # Llama 3.1 8B
    "model_type": "llama", "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
    "hidden_size": 4096, "torch_dtype": "bfloat16",
}  # fmt: skip
QWEN2 = {
    "model_type": "qwen2", "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
    "hidden_size": 3584, "dtype": "bfloat16", "use_sliding_window": False, "sliding_window": 131072,
    "max_window_layers": 20,
}  # fmt: skip
GPT_OSS = {
    "model_type": "gpt_oss", "num_hidden_layers": 24, "num_attention_heads": 64, "num_key_value_heads": 8,
    "hidden_size": 2880, "head_dim": 64, "sliding_window": 128,
    "layer_types": ["sliding_attention", "full_attention"] * 12, "dtype": "bfloat16",
}  # fmt: skip
DEEPSEEK = {
    "model_type": "deepseek_v3", "num_hidden_layers": 61, "num_attention_heads": 128, "num_key_value_heads": 128,
    "hidden_size": 7168, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128,
    "torch_dtype": "bfloat16",
}  # fmt: skip
GEMMA3 = {  # as published: text_config leaves out what equals the class
    "model_type": "gemma3", "torch_dtype": "bfloat16",
    "text_config": {"model_type": "gemma3_text", "num_hidden_layers": 34, "hidden_size": 2560, "sliding_window": 1024},
    "vision_config": {"num_hidden_layers": 27, "hidden_size": 1152, "num_attention_heads": 16},
}  # fmt: skip
FALCON = {
    "model_type": "falcon", "num_hidden_layers": 32, "num_attention_heads": 71, "hidden_size": 4544,
    "multi_query": True, "new_decoder_architecture": False, "torch_dtype": "bfloat16",
}  # fmt: skip
MODELS: dict[str, tuple[dict[str, Any], ModelShape]] = {
    "Llama 3.1 8B": (LLAMA, ModelShape(32, 8, 128, 128, "bfloat16")),
    "Llama 2 7B, before grouped heads": (
        {**LLAMA, "num_key_value_heads": None, "torch_dtype": "float16"}, ModelShape(32, 32, 128, 128, "float16"),
    ),
    "Llama 3.2 1B, head size of its own": (
        {**LLAMA, "num_hidden_layers": 16, "hidden_size": 2048, "head_dim": 64}, ModelShape(16, 8, 64, 64, "bfloat16"),
    ),
    "Mistral 7B 0.1": (
        {**LLAMA, "model_type": "mistral", "sliding_window": 4096},
        ModelShape(32, 8, 128, 128, "bfloat16", 32),
    ),
    "Mistral 7B 0.3": (
        {**LLAMA, "model_type": "mistral", "sliding_window": None},
        ModelShape(32, 8, 128, 128, "bfloat16"),
    ),
    "Mixtral 8x7B": (
        {**LLAMA, "model_type": "mixtral", "sliding_window": None},
        ModelShape(32, 8, 128, 128, "bfloat16"),
    ),
    "Qwen 2 7B": (QWEN2, ModelShape(28, 4, 128, 128, "bfloat16")),
    "Qwen 2, windows on": ({**QWEN2, "use_sliding_window": True}, ModelShape(28, 4, 128, 128, "bfloat16", 8)),
    "Qwen 3 0.6B": (
        {**QWEN2, "model_type": "qwen3", "num_attention_heads": 16, "num_key_value_heads": 8, "hidden_size": 1024,
         "head_dim": 128},
        ModelShape(28, 8, 128, 128, "bfloat16"),
    ),
    "Qwen 3 30B A3B": (
        {**QWEN2, "model_type": "qwen3_moe", "num_hidden_layers": 48, "num_attention_heads": 32, "hidden_size": 2048,
         "head_dim": 128, "sliding_window": None},
        ModelShape(48, 4, 128, 128, "bfloat16"),
    ),
    "Gemma 2 9B, before layer_types": (
        {"model_type": "gemma2", "num_hidden_layers": 42, "num_attention_heads": 16, "num_key_value_heads": 8,
         "hidden_size": 3584, "head_dim": 256, "sliding_window": 4096, "torch_dtype": "float32"},
        ModelShape(42, 8, 256, 256, "float32", 21),
    ),
    "Gemma 3 4B": (GEMMA3, ModelShape(34, 4, 256, 256, "bfloat16", 29)),
    "Phi 2": (
        {"model_type": "phi", "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": None,
         "hidden_size": 2560, "torch_dtype": "float16"},
        ModelShape(32, 32, 80, 80, "float16"),
    ),
    "Phi 3 mini": (
        {"model_type": "phi3", "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32,
         "hidden_size": 3072, "sliding_window": 2047, "torch_dtype": "bfloat16"},
        ModelShape(32, 32, 96, 96, "bfloat16", 32),
    ),
    "GPT-OSS 20B": (GPT_OSS, ModelShape(24, 8, 64, 64, "bfloat16", 12)),
    "DeepSeek V3": (DEEPSEEK, ModelShape(61, 1, 576, 0, "bfloat16")),
    "DeepSeek V2 lite": (
        {**DEEPSEEK, "model_type": "deepseek_v2", "num_hidden_layers": 27}, ModelShape(27, 1, 576, 0, "bfloat16"),
    ),
    "OPT 13B": (
        {"model_type": "opt", "num_hidden_layers": 40, "num_attention_heads": 40, "hidden_size": 5120,
         "torch_dtype": "float16"},
        ModelShape(40, 40, 128, 128, "float16"),
    ),
    "GPT-2": (
        {"model_type": "gpt2", "n_layer": 12, "n_head": 12, "n_embd": 768},
        ModelShape(12, 12, 64, 64, "float32"),
    ),
    "Falcon 7B": (FALCON, ModelShape(32, 1, 64, 64, "bfloat16")),
    "Falcon 7B with a number that does not count": (
        {**FALCON, "num_kv_heads": 71},
        ModelShape(32, 1, 64, 64, "bfloat16"),
    ),
    "Falcon 40B": (
        {**FALCON, "num_hidden_layers": 60, "num_attention_heads": 128, "hidden_size": 8192, "num_kv_heads": 8,
         "new_decoder_architecture": True},
        ModelShape(60, 8, 64, 64, "bfloat16"),
    ),
    "Falcon RW 1B": (
        {**FALCON, "num_hidden_layers": 24, "num_attention_heads": 32, "hidden_size": 2048, "multi_query": False},
        ModelShape(24, 32, 64, 64, "bfloat16"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("model", MODELS)
def test_shapes_of_published_models(model: str) -> None:
    config, shape = MODELS[model]
    assert read_shape(config) == shape


def test_every_known_model_type_is_tried_or_has_the_fields_of_one_that_is() -> None:
    tried = {config["model_type"] for config, _ in MODELS.values()} | {"gemma3_text"}
    assert set(MODEL_TYPES) - tried == {"qwen2_moe", "gemma", "phimoe"}
    assert read_shape({**QWEN2, "model_type": "qwen2_moe"}) == read_shape(QWEN2)
    assert read_shape({**LLAMA, "model_type": "phimoe"}) == read_shape(LLAMA)
    assert read_shape({**LLAMA, "model_type": "gemma", "head_dim": 256}) == ModelShape(32, 8, 256, 256, "bfloat16")


def test_a_layout_from_a_path_a_folder_and_a_dict(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(LLAMA), encoding="utf-8")
    expected = KVLayout(32, 8, 128, "bfloat16", 16)
    assert expected.token_bytes == 131_072
    for config in (file, str(file), tmp_path, str(tmp_path), LLAMA):
        assert KVLayout.from_config(config, 16) == expected


def test_what_the_caller_says_wins() -> None:
    layout = KVLayout.from_config(LLAMA, 32, dtype="fp8", order="layer", kv_layout="HND", scales=True)
    assert layout == KVLayout(32, 8, 128, "float8_e4m3fn", 32, "layer", "HND", scales=True)


def test_transformers_objects_are_read_too() -> None:
    class Config:
        def to_dict(self) -> dict[str, Any]:
            return {**LLAMA, "dtype": "torch.float16"}

    assert read_shape(Config()).dtype == "torch.float16"  # type: ignore[arg-type]
    assert KVLayout.from_config(Config(), 16).dtype == "float16"  # type: ignore[arg-type]


@pytest.mark.parametrize(("config", "ranks", "heads"), [
    (LLAMA, 1, 8), (LLAMA, 2, 4), (LLAMA, 8, 1), (LLAMA, 16, 1), (LLAMA, 64, 1), (FALCON, 4, 1), (QWEN2, 4, 1),
])  # fmt: skip
def test_ranks_share_heads_or_repeat_them(config: dict[str, Any], ranks: int, heads: int) -> None:
    assert read_shape(config, ranks).num_kv_heads == heads
    assert KVLayout.from_config(config, 16, tensor_parallel=ranks).num_kv_heads == heads


@pytest.mark.parametrize(("config", "ranks"), [(LLAMA, 3), (LLAMA, 12), (QWEN2, 6), (QWEN2, 3)])
def test_ranks_that_cannot_share_heads(config: dict[str, Any], ranks: int) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"KV heads cannot be shared by {ranks} ranks"):
        read_shape(config, ranks)


@pytest.mark.parametrize("ranks", [0, -1, 1.5, None, True, "2"])
def test_what_is_no_number_of_ranks(ranks: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="tensor_parallel"):
        read_shape(LLAMA, ranks)


@pytest.mark.parametrize("ranks", [1, 2, 3, 8])
def test_a_latent_vector_is_whole_on_every_rank(ranks: int) -> None:
    layout = KVLayout.from_config(DEEPSEEK, 64, tensor_parallel=ranks)
    assert layout == KVLayout.latent(61, 576, "bfloat16", 64)
    assert layout.token_bytes == 70_272


def test_windows_are_stored_as_full_attention_and_it_says_so() -> None:
    with pytest.warns(SlidingWindowWarning, match="12 of 24 layers have a sliding window.*full attention") as caught:
        layout = KVLayout.from_config(GPT_OSS, 16)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert layout == KVLayout(24, 8, 64, "bfloat16", 16)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        KVLayout.from_config({**GPT_OSS, "layer_types": ["full_attention"] * 24}, 16)


@pytest.mark.parametrize("kinds", [
    ["full_attention"] * 23, ["full_attention"] * 23 + ["linear_attention"], ["chunked_attention"] * 24, "full", 24, [],
])  # fmt: skip
def test_layers_that_keep_no_keys_for_every_token(kinds: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="layer_types"):
        read_shape({**GPT_OSS, "layer_types": kinds})


def test_an_unknown_model_type_names_it_and_the_fields_that_are_missing() -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        read_shape({"model_type": "mamba2", "num_hidden_layers": 3})
    text = str(caught.value)
    assert "model type 'mamba2' is not known" in text
    assert "it lacks num_key_value_heads, head_dim" in text
    assert "llama" in text
    whole = {"model_type": "new", "num_hidden_layers": 3, "num_key_value_heads": 2, "head_dim": 8}
    with pytest.raises(InvalidArgumentError, match=r"'new' is not known.*it has num_hidden_layers"):
        read_shape(whole)
    with pytest.raises(InvalidArgumentError, match="model type None is not known"):
        read_shape({"architectures": ["LlamaForCausalLM"]})


@pytest.mark.parametrize(("config", "field"), [
    (LLAMA, "num_hidden_layers"), (LLAMA, "num_attention_heads"), (LLAMA, "hidden_size"),
    (GPT_OSS, "head_dim"), (GPT_OSS, "num_hidden_layers"),
    (DEEPSEEK, "kv_lora_rank"), (DEEPSEEK, "qk_rope_head_dim"),
    (MODELS["GPT-2"][0], "n_layer"), (MODELS["GPT-2"][0], "n_head"), (MODELS["GPT-2"][0], "n_embd"),
    (FALCON, "num_attention_heads"), (MODELS["Qwen 3 0.6B"][0], "head_dim"),
])  # fmt: skip
def test_a_missing_field_is_named(config: dict[str, Any], field: str) -> None:
    without = {key: value for key, value in config.items() if key != field}
    for broken in (without, {**config, field: None}):
        with pytest.raises(InvalidArgumentError, match=f"lacks .*{field}"):
            read_shape(broken)


@pytest.mark.parametrize("bad", [0, -1, 1.5, "32", True, [32], 2**31])
@pytest.mark.parametrize("field", ["num_hidden_layers", "num_key_value_heads", "hidden_size"])
def test_a_value_that_makes_no_sense_is_named(field: str, bad: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=field):
        read_shape({**LLAMA, field: bad})


def test_heads_that_do_not_divide_the_hidden_size() -> None:
    with pytest.raises(InvalidArgumentError, match="hidden_size 4097 is no multiple of num_attention_heads 32"):
        read_shape({**LLAMA, "hidden_size": 4097})


@pytest.mark.parametrize(("field", "bad"), [("max_window_layers", -1), ("max_window_layers", "all")])
def test_windows_that_make_no_sense(field: str, bad: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=field):
        read_shape({**QWEN2, "use_sliding_window": True, field: bad})


def test_files_that_are_no_config(tmp_path: Path) -> None:
    texts = {
        "list.json": "[1]",
        "text.json": "llama",
        "empty.json": "",
        "number.json": "3",
        "cut.json": '{"model_type"',
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "latin.json").write_bytes(b'{"model_type": "\xe4"}')
    for name in (*texts, "latin.json", "missing.json", ""):  # the folder itself has no config.json
        with pytest.raises(InvalidArgumentError, match="config"):
            read_shape(tmp_path / name)
    for value in (None, 3, [LLAMA], b"config.json"):
        with pytest.raises(InvalidArgumentError, match=r"give a config\.json, its folder, or a dict"):
            read_shape(value)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="none is downloaded"):
        read_shape("meta-llama/Llama-3.1-8B")


def test_a_format_that_no_cache_has() -> None:
    with pytest.raises(InvalidArgumentError, match="float64"):
        KVLayout.from_config({**LLAMA, "torch_dtype": "float64"}, 16)
    assert KVLayout.from_config({**LLAMA, "torch_dtype": "float64"}, 16, dtype="bf16").dtype == "bfloat16"
