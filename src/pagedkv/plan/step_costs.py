"""What a step of a model costs one GPU, in operations and bytes: the numbers of a roofline.

Linear layers: 2 operations a parameter that a token uses, and the bytes of all parameters that some token uses. The
table of input embeddings is looked up, not read, unless it is the output layer too. The output layer is apart: most
tokens of a prompt never pass it. Attention: 2 x (head size of K + of
V) operations a query head, layer and pair of tokens; a latent layout as if its vectors were the heads. Everything is
shared evenly by the GPUs; keys and values are those of a rank's layout.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pagedkv.arguments import INT32_MAX, whole_number
from pagedkv.errors import InvalidArgumentError
from pagedkv.model_config import ModelShape, language_fields, read_shape
from pagedkv.plan.catalog import Gpu, Model
from pagedkv.plan.experts import experts_of
from pagedkv.plan.parameters import COUNTED, count_parameters
from pagedkv.plan.weights import Weights


@dataclass(frozen=True, slots=True)
class StepCosts:
    """weight_bytes: read whatever the batch; expert_bytes, expert_share: see `experts`. Operations and bytes of a GPU;
    token_operations without the output layer's, which are 0 where its size is not known.

    peak: its operations/s, bandwidth: its bytes/s, of which the sources are the catalog's.
    """

    weight_bytes: float
    expert_bytes: float
    expert_share: float
    token_operations: float
    output_operations: float
    pair_operations: float
    peak: float
    bandwidth: float


def step_costs(model: Model, weights: Weights, gpu: Gpu, ranks: int = 1) -> StepCosts:
    """Return what a step costs each of `ranks` GPUs. weights: of the whole model.

    Raises InvalidArgumentError where the GPU's speeds or the model's parameters are not known. Pure.
    """
    if gpu.flops is None or gpu.bandwidth is None:
        raise InvalidArgumentError(
            f"the speeds of {gpu.name or 'a GPU that is only a size'} are not known; give a GPU by name, or describe "
            "it in a catalog, with its bandwidth and compute"
        )
    fields, shape = language_fields(model.config), read_shape(model.config)
    parameters = weights.parameters or model.parameters or count_parameters(fields, shape)
    if parameters is None:
        raise InvalidArgumentError(
            f"the parameters of {model.name} are not known, so its arithmetic is not; describe it in a catalog, with "
            "its number of parameters"
        )
    each = weights.total_bytes / parameters  # bytes
    experts = experts_of(fields, shape.num_layers)
    routed, share = (0, 0.0) if experts is None else (experts.parameters, experts.share)
    output = _output_layer(fields)
    common = parameters - routed - (output if _untied(fields) else 0)
    if common <= output:
        raise InvalidArgumentError(
            f"{model.name} has {parameters:,} parameters, and experts and embeddings alone "
            f"{parameters - common + output:,}; correct its config or its number of parameters"
        )
    return StepCosts(
        weight_bytes=common * each / ranks,
        expert_bytes=routed * each / ranks,
        expert_share=share,
        token_operations=2 * (common - output + routed * share) / ranks,
        output_operations=2 * output / ranks,
        pair_operations=_pair_operations(fields, shape) / ranks,
        peak=gpu.flops,
        bandwidth=gpu.bandwidth,
    )


def _untied(fields: Mapping[str, Any]) -> bool:
    """Whether the output layer is a table of its own, beside that of the input embeddings."""
    return fields.get("tie_word_embeddings", fields.get("model_type") not in COUNTED) is False


def _output_layer(fields: Mapping[str, Any]) -> int:
    """Parameters of the output layer, as many as of the input embeddings; 0 where the config does not tell."""
    if fields.get("vocab_size") is None or fields.get("hidden_size") is None:
        return 0
    return _number(fields, "vocab_size") * _number(fields, "hidden_size")


def _pair_operations(fields: Mapping[str, Any], shape: ModelShape) -> int:
    heads = _number(fields, "n_head" if fields.get("num_attention_heads") is None else "num_attention_heads")
    values = shape.v_head_dim or _number(fields, "kv_lora_rank")
    return 2 * shape.num_layers * heads * (shape.head_dim + values)


def _number(fields: Mapping[str, Any], name: str) -> int:
    return whole_number(fields.get(name), name, minimum=1, maximum=INT32_MAX)
