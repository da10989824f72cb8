"""Parameters of Llama-like models from their configs: published counts, and None where nobody can tell."""

from __future__ import annotations

from typing import Any

import pytest

from pagedkv.errors import InvalidArgumentError
from pagedkv.model_config import language_fields, read_shape
from pagedkv.plan import Model, read_catalog, weights_of
from pagedkv.plan.parameters import count_parameters

PUBLISHED = {
    "Llama-3.2-1B": 1_235_814_400,
    "Llama-3.1-8B": 8_030_261_248,
    "Llama-3.1-70B": 70_553_706_496,
    "Llama-3.1-405B": 405_853_388_800,
    "Mistral-7B-v0.3": 7_248_023_552,
    "Mixtral-8x7B-v0.1": 46_702_792_704,
    "Qwen2.5-7B": 7_615_616_512,
    "Qwen2.5-72B": 72_706_203_648,
    "Qwen3-8B": 8_190_735_360,
    "Qwen3-32B": 32_762_123_264,
}
TINY: dict[str, Any] = {
    "model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "hidden_size": 8, "intermediate_size": 3, "vocab_size": 5, "torch_dtype": "bfloat16",
}  # fmt: skip


def counted(config: dict[str, Any]) -> int | None:
    return count_parameters(language_fields(config), read_shape(config))


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_counts(name: str) -> None:
    model = read_catalog().model(name)
    assert model.parameters is None
    told = weights_of(model, read_shape(model.config))
    assert (told.parameters, told.total_bytes) == (PUBLISHED[name], 2 * PUBLISHED[name])
    assert (told.dtype, told.source) == ("bfloat16", "counted from the config")


def test_by_hand() -> None:
    # Embeddings 2 x 5 x 8, last norm 8; a layer: q and o 2 x 8 x 8, k and v 2 x 8 x 4, norms 2 x 8, MLP 3 x 8 x 3.
    layer = 128 + 64 + 16 + 72
    assert counted(TINY) == 80 + 8 + 2 * layer
    assert counted({**TINY, "tie_word_embeddings": True}) == 40 + 8 + 2 * layer
    assert counted({**TINY, "attention_bias": True}) == 80 + 8 + 2 * (layer + 8 + 2 * 4 + 8)
    assert counted({**TINY, "mlp_bias": True}) == 80 + 8 + 2 * (layer + 3 + 3 + 8)
    assert counted({**TINY, "model_type": "qwen2"}) == 80 + 8 + 2 * (layer + 8 + 2 * 4)
    assert counted({**TINY, "model_type": "qwen3", "head_dim": 2}) == 80 + 8 + 2 * (layer + 2 + 2)
    assert counted({**TINY, "model_type": "mixtral", "num_local_experts": 3}) == 80 + 8 + 2 * (208 + 3 * (72 + 8))


@pytest.mark.parametrize("missing", ["vocab_size", "hidden_size", "intermediate_size"])
def test_what_a_config_leaves_out_is_not_guessed(missing: str) -> None:
    config = {key: value for key, value in TINY.items() if key != missing} | {"head_dim": 2}
    assert counted(config) is None
    with pytest.raises(InvalidArgumentError, match=r"of a 'llama' model cannot be counted.*give --weights SIZE"):
        weights_of(Model("m", config, ""), read_shape(config))


@pytest.mark.parametrize("kind", ["gemma", "phi", "opt", "qwen2_moe", "qwen3_moe"])
def test_families_with_more_than_the_formula(kind: str) -> None:
    assert counted({**TINY, "model_type": kind, "head_dim": 2}) is None


def test_a_tower_beside_the_language_model_is_not_forgotten() -> None:
    config = {"model_type": "llava", "text_config": TINY, "vision_config": {}, "torch_dtype": "bfloat16"}
    with pytest.raises(InvalidArgumentError, match="cannot be counted"):
        weights_of(Model("m", config, ""), read_shape(config))


def test_what_is_given_wins_and_quantized_weights_must_be_given() -> None:
    quantized = {**TINY, "quantization_config": {"quant_method": "awq"}}
    shape = read_shape(quantized)
    with pytest.raises(InvalidArgumentError, match=r"m is quantized \(awq\).*give --weights SIZE"):
        weights_of(Model("m", quantized, ""), shape)
    given = weights_of(Model("m", quantized, ""), shape, given=77)
    assert (given.total_bytes, given.parameters, given.source) == (77, None, "given")
    assert weights_of(Model("m", quantized, ""), shape, dtype="int8").total_bytes == 648
    assert weights_of(Model("m", TINY, "", parameters=10, parameters_source="a card"), shape).total_bytes == 20
    assert weights_of(Model("m", TINY, "", parameters=10, parameters_source="a card"), shape).source == "a card"


@pytest.mark.parametrize("bad", [0, -5, 1.5, "8", True])
def test_fields_that_make_no_sense(bad: Any) -> None:
    for name in ("vocab_size", "intermediate_size"):
        with pytest.raises(InvalidArgumentError, match=name):
            counted({**TINY, name: bad})


@pytest.mark.parametrize("name", ["tie_word_embeddings", "attention_bias", "mlp_bias"])
@pytest.mark.parametrize("bad", ["false", 0, 1, [], "x"])
def test_what_is_neither_true_nor_false(name: str, bad: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"{name} is .*give true or false"):
        counted({**TINY, name: bad})
