"""The formula and the catalog against what Transformers' own models have, without their memory."""

from __future__ import annotations

from typing import Any

import pytest

from pagedkv.model_config import language_fields, read_shape
from pagedkv.plan import read_catalog
from pagedkv.plan.parameters import count_parameters

torch = pytest.importorskip("torch", reason="PyTorch and Transformers make the models")
transformers = pytest.importorskip("transformers", reason="PyTorch and Transformers make the models")

SMALL: dict[str, Any] = {
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6, "hidden_size": 8,
    "intermediate_size": 3, "vocab_size": 5, "num_local_experts": 3, "num_experts_per_tok": 1, "pad_token_id": None,
    "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
CASES = [
    (kind, extra)
    for kind in ("llama", "mistral", "mixtral", "qwen2", "qwen3")
    for extra in ({}, {"tie_word_embeddings": True})
] + [("llama", {"attention_bias": True, "mlp_bias": True}), ("qwen3", {"attention_bias": True})]
COUNTED = ["Llama-3.2-1B", "Llama-3.1-8B", "Mixtral-8x7B-v0.1", "Qwen2.5-7B", "Qwen3-8B"]
TOLD = ["Gemma-2-9B", "gpt-oss-20b", "OPT-13B", "DeepSeek-V3"]


def by_transformers(config: dict[str, Any]) -> int:
    fields = {key: value for key, value in config.items() if key not in ("model_type", "quantization_config")}
    made = transformers.AutoConfig.for_model(config["model_type"], **fields)
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(made)
    model.tie_weights()
    return sum(one.numel() for one in model.parameters())


@pytest.mark.parametrize(("kind", "extra"), CASES)
def test_small_models(kind: str, extra: dict[str, Any]) -> None:
    config = {**SMALL, "model_type": kind, **extra}
    if kind in ("qwen2", "mixtral"):  # no head size of their own in every version
        del config["head_dim"]
    assert count_parameters(language_fields(config), read_shape(config)) == by_transformers(config)


@pytest.mark.parametrize("name", COUNTED + TOLD)
def test_models_of_the_catalog(name: str) -> None:
    model = read_catalog().model(name)
    counted = count_parameters(language_fields(model.config), read_shape(model.config))
    assert (counted is None) == (name in TOLD)
    assert (counted or model.parameters) == by_transformers(dict(model.config))
