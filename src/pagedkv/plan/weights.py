"""The bytes of a model's weights: as given, or parameters x bytes a parameter, never guessed."""

from __future__ import annotations

from dataclasses import dataclass

from pagedkv.dtypes import dtype_of
from pagedkv.errors import InvalidArgumentError
from pagedkv.model_config import ModelShape, language_fields
from pagedkv.plan.catalog import Model
from pagedkv.plan.parameters import count_parameters


@dataclass(frozen=True, slots=True)
class Weights:
    """total_bytes: of the whole model, over all ranks; source: how that is known, in words.

    parameters, dtype: what it was computed from; None: it was given.
    """

    total_bytes: int
    source: str
    parameters: int | None = None
    dtype: str | None = None

    def rank_bytes(self, ranks: int) -> int:
        """Bytes on each of `ranks` ranks that share the weights evenly, rounded up."""
        return -(-self.total_bytes // ranks)


def weights_of(model: Model, shape: ModelShape, *, given: int | None = None, dtype: object = None) -> Weights:
    """Return the weights of a model. shape: of all its heads, on one rank.

    given: bytes of the whole model; dtype: the format of its weights; None: the config's. Raises InvalidArgumentError
    where they cannot be told: what to give is in its message. Reads nothing.
    """
    if given is not None:
        return Weights(given, "given")
    fields = language_fields(model.config)
    quantized = model.config.get("quantization_config") or fields.get("quantization_config")
    if quantized and dtype is None:
        method = quantized.get("quant_method", "?") if isinstance(quantized, dict) else "?"
        raise InvalidArgumentError(
            f"{model.name} is quantized ({method}), so its weights are not parameters x bytes; give --weights SIZE, "
            "the sum of its weight files"
        )
    parameters, source = model.parameters, model.parameters_source
    if parameters is None and fields is model.config:  # beside a text_config there are towers that nobody counts
        parameters, source = count_parameters(fields, shape), "counted from the config"
    if parameters is None:
        raise InvalidArgumentError(
            f"the parameters of a {fields.get('model_type')!r} model cannot be counted from this config; give "
            "--weights SIZE, the sum of its weight files"
        )
    kind = dtype_of(shape.dtype if dtype is None else dtype)
    return Weights(parameters * kind.itemsize, source or "given with the model", parameters, kind.name)
