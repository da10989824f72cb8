"""What a step of a model costs: parameters, operations and bytes by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pagedkv.errors import InvalidArgumentError
from pagedkv.model_config import language_fields, read_shape
from pagedkv.plan import Gpu, Weights, read_catalog, weights_of
from pagedkv.plan.experts import experts_of
from pagedkv.plan.step_costs import StepCosts, step_costs


def costs(name: str, ranks: int = 1, weights: Weights | None = None) -> StepCosts:
    catalog = read_catalog()
    model = catalog.model(name)
    known = weights_of(model, read_shape(model.config)) if weights is None else weights
    return step_costs(model, known, catalog.gpu("H100"), ranks)


def test_tied_embeddings_are_read_as_the_output_layer() -> None:
    # Llama 3.2 1B: 1,235,814,400 parameters, its 128,256 x 2,048 embeddings tied.
    found = costs("Llama-3.2-1B")
    assert found.weight_bytes == 2 * 1_235_814_400
    assert found.output_operations == 2 * 128_256 * 2048
    assert found.token_operations + found.output_operations == 2 * 1_235_814_400


def test_an_output_layer_of_unknown_size_is_one_of_the_layers() -> None:
    model = read_catalog().model("Llama-3.2-1B")
    config = {name: value for name, value in model.config.items() if name != "vocab_size"}
    found = step_costs(replace(model, config=config), Weights(2000, "given", 1000), read_catalog().gpu("H100"), 2)
    assert (found.weight_bytes, found.token_operations, found.output_operations) == (1000, 1000, 0)


def test_a_mixture_reads_what_its_tokens_use() -> None:
    found = costs("Mixtral-8x7B-v0.1")
    experts = 32 * 8 * 3 * 4096 * 14336
    common = 46_702_792_704 - experts - 32_000 * 4096
    assert found.expert_share == 2 / 8
    assert found.expert_bytes == 2 * experts
    assert found.weight_bytes == 2 * common
    assert found.output_operations == 2 * 32_000 * 4096
    assert found.token_operations == 2 * (common - 32_000 * 4096 + experts / 4)
    assert found.pair_operations == 2 * 32 * 32 * 256
    four = costs("Mixtral-8x7B-v0.1", 4)
    assert four.expert_bytes * 4 == found.expert_bytes


def test_a_latent_model_attends_with_its_vectors() -> None:
    found = costs("DeepSeek-V3", weights=Weights(671_026_404_352, "a byte each"))
    assert found.pair_operations == 2 * 61 * 128 * (576 + 512)
    assert found.expert_bytes == 58 * 256 * 3 * 7168 * 2048
    assert found.expert_share == 8 / 256


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model_type": "qwen2_moe", "num_local_experts": None, "num_experts": 60}, "60 experts"),
        ({"num_experts_per_tok": 9}, "9 and there are 8"),
        ({"intermediate_size": None}, "no intermediate_size"),
    ],
)
def test_experts_that_nobody_can_tell(changes: dict[str, Any], said: str) -> None:
    fields = {**language_fields(read_catalog().model("Mixtral-8x7B-v0.1").config), **changes}
    with pytest.raises(InvalidArgumentError, match=said):
        experts_of(fields, 32)


def test_speeds_and_parameters_must_be_known() -> None:
    model = read_catalog().model("Llama-3.1-8B")
    weights = weights_of(model, read_shape(model.config))
    with pytest.raises(InvalidArgumentError, match="speeds of a GPU that is only a size"):
        step_costs(model, weights, Gpu("", 1, "given"))
    contradiction = Weights(weights.total_bytes, "given", 500_000_000, "bfloat16")
    with pytest.raises(InvalidArgumentError, match="correct its config"):
        step_costs(model, contradiction, read_catalog().gpu("H100"))
