"""Shapes read from a config against the cache that Transformers' own model of that config fills."""

from __future__ import annotations

from typing import Any

import pytest

from pagedkv.model_config import MODEL_TYPES, read_shape

torch = pytest.importorskip("torch", reason="PyTorch and Transformers make the models")
transformers = pytest.importorskip("transformers", reason="PyTorch and Transformers make the models")

TINY = {
    "vocab_size": 32, "hidden_size": 32, "intermediate_size": 16, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "max_position_embeddings": 64,
}  # fmt: skip
EXPERTS = {"num_experts": 2, "num_local_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 8}
LATENT = {
    "kv_lora_rank": 8, "q_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 6, "v_head_dim": 10,
    "n_routed_experts": 2, "n_group": 1, "topk_group": 1, "num_experts_per_tok": 1, "moe_intermediate_size": 8,
    "first_k_dense_replace": 3, "num_key_value_heads": 4,
}  # fmt: skip
GPT2 = {"n_layer": 3, "n_head": 4, "n_embd": 32, "vocab_size": 32, "n_positions": 64}
SMALL: dict[str, dict[str, Any]] = {
    "llama": {},
    "mistral": {"sliding_window": 16},
    "mixtral": EXPERTS,
    "qwen2": {},
    "qwen2_moe": EXPERTS | {"shared_expert_intermediate_size": 8},
    "qwen3": {"head_dim": 16},
    "qwen3_moe": EXPERTS,
    "gemma": {"head_dim": 16},
    "gemma2": {"head_dim": 16, "sliding_window": 16},
    "gemma3_text": {"head_dim": 16, "sliding_window": 16},
    "phi": {},
    "phi3": {},
    "phimoe": EXPERTS,
    "gpt_oss": EXPERTS | {"head_dim": 16, "sliding_window": 16},
    "deepseek_v2": LATENT,
    "deepseek_v3": LATENT,
    "opt": {"ffn_dim": 16, "word_embed_proj_dim": 32},
    "gpt2": GPT2,
    "falcon": {},
}
FALCONS = [
    {"multi_query": True, "new_decoder_architecture": False},
    {"multi_query": False, "new_decoder_architecture": False},
]


def cached(config: Any) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """[batch, heads, tokens, head size] of K and V of every layer after a forward of 3 tokens."""
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        cache = model(torch.tensor([[3, 4, 5]]), use_cache=True).past_key_values
    return [(tuple(layer.keys.shape), tuple(layer.values.shape)) for layer in cache.layers]


def config_of(model_type: str, **fields: Any) -> Any:
    base = {} if model_type == "gpt2" else TINY
    return transformers.AutoConfig.for_model(model_type, **{**base, **fields})


def test_every_model_type_is_tried() -> None:
    assert set(SMALL) == set(MODEL_TYPES)


@pytest.mark.parametrize("model_type", sorted(set(SMALL) - {"deepseek_v2", "deepseek_v3"}))
def test_the_cache_has_the_shape_that_the_config_says(model_type: str) -> None:
    config = config_of(model_type, **SMALL[model_type])
    shape = read_shape(config.to_dict())
    k = (1, shape.num_kv_heads, 3, shape.head_dim)
    v = (1, shape.num_kv_heads, 3, shape.v_head_dim)
    assert cached(config) == [(k, v)] * shape.num_layers == [(k, v)] * 3


@pytest.mark.parametrize("model_type", ["deepseek_v2", "deepseek_v3"])
def test_a_latent_vector_is_what_transformers_keeps_in_two_pieces(model_type: str) -> None:
    config = config_of(model_type, **LATENT)
    shape = read_shape(config.to_dict())
    assert (shape.num_kv_heads, shape.head_dim, shape.v_head_dim) == (1, 12, 0)
    assert cached(config) == [((1, 1, 3, 8), (1, 1, 3, 4))] * 3 == [((1, 1, 3, 8), (1, 1, 3, 4))] * shape.num_layers


@pytest.mark.parametrize("fields", FALCONS)
def test_falcons_of_both_old_kinds(fields: dict[str, Any]) -> None:
    config = config_of("falcon", **fields)
    shape = read_shape(config.to_dict())
    assert shape.num_kv_heads == (1 if fields["multi_query"] else 4)
    assert cached(config) == [((1, shape.num_kv_heads, 3, 8),) * 2] * 3


def test_new_falcons_keep_few_heads_which_transformers_repeats_in_its_cache() -> None:
    config = config_of("falcon", new_decoder_architecture=True, num_kv_heads=2)
    assert read_shape(config.to_dict()).num_kv_heads == 2
    assert cached(config)[0][0] == (1, 4, 3, 8)


def sliding(config: Any) -> int:
    return sum(layer.is_sliding for layer in transformers.DynamicCache(config=config).layers)


@pytest.mark.parametrize(("model_type", "fields"), [
    *SMALL.items(),
    ("qwen2", {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1}),
    ("qwen3", {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 2, "head_dim": 8}),
    ("phi3", {"sliding_window": 8}), ("mixtral", EXPERTS | {"sliding_window": 8}),
    ("gemma2", {"num_hidden_layers": 7, "head_dim": 8}), ("gemma3_text", {"num_hidden_layers": 14, "head_dim": 8}),
    ("gpt_oss", {"num_hidden_layers": 5, "head_dim": 8}),
])  # fmt: skip
def test_as_many_layers_slide_as_in_transformers(model_type: str, fields: dict[str, Any]) -> None:
    config = config_of(model_type, **fields)
    assert read_shape(config.to_dict()).sliding_layers == sliding(config)
    older = {key: value for key, value in config.to_dict().items() if key != "layer_types"}
    assert read_shape(older).sliding_layers == sliding(config)


def test_a_saved_config_is_read_from_its_folder(tmp_path: Any) -> None:
    config = config_of("qwen3", head_dim=16, dtype=torch.bfloat16)
    config.save_pretrained(tmp_path)
    assert read_shape(tmp_path) == read_shape(config) == read_shape(config.to_dict())
    assert read_shape(tmp_path).dtype == "bfloat16"


def test_a_saved_gemma_3_with_images(tmp_path: Any) -> None:
    text = {"num_hidden_layers": 34, "hidden_size": 2560, "sliding_window": 1024}
    config = transformers.Gemma3Config(text_config=text, dtype="bfloat16")
    config.save_pretrained(tmp_path)
    assert read_shape(tmp_path) == read_shape(config)
    assert read_shape(tmp_path).sliding_layers == sliding(config.text_config)


def test_what_nested_configs_leave_out_is_what_the_class_has() -> None:
    plain = transformers.Gemma3TextConfig()
    nested = {"model_type": "gemma3", "text_config": {"model_type": "gemma3_text"}}
    assert read_shape(nested) == read_shape(plain.to_dict())
