"""--step-time: how long a step takes, as a model of it. linear:..., fit:FILE, roofline:MODEL:GPU[:GPUS]."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pagedkv.arguments import INT32_MAX, whole_number
from pagedkv.cli.quantities import SMALL_DECIMAL
from pagedkv.errors import InvalidArgumentError
from pagedkv.simulate.step_time import LinearTime, Roofline, StepTime, StepWork, fit_steps

if TYPE_CHECKING:
    from pagedkv.plan import Gpu, Model, Weights

FORMS = (
    "linear:STEP:PREFILLED:SEQUENCE:CONTEXT (microseconds of a step, a prefilled token, a sequence, a token of its "
    "context), fit:FILE.csv (measured steps), or roofline:MODEL:GPU[:GPUS]"
)


@dataclass(frozen=True, slots=True)
class NamedRoofline:
    """A roofline and what it is of. token_bytes: of keys and values, on one GPU."""

    roofline: Roofline
    token_bytes: int
    model: str
    gpu: str
    gpus: int
    weights_source: str

    def seconds(self, work: StepWork) -> float:
        """Return the least seconds of a step. Pure."""
        return self.roofline.seconds(work)

    def described(self) -> dict[str, Any]:
        """Return what it was made of."""
        told = asdict(self)
        del told["roofline"]
        return told | self.roofline.described()


def read_step_time(text: str) -> StepTime:
    """Return the model that an option asks for. Reads a file of measured steps, or the built-in table.

    Errors: InvalidArgumentError, which names the option.
    """
    kind, _, rest = text.strip().partition(":")
    if kind == "linear":
        return _linear(rest, text)
    if kind == "fit" and rest:
        return fit_steps(rest)
    if kind == "roofline" and rest:
        return _named(rest)
    raise InvalidArgumentError(f"--step-time is {text[:60]!r}; give {FORMS}")


def _linear(rest: str, text: str) -> LinearTime:
    numbers = rest.split(":")
    if len(numbers) != 4 or not all(map(SMALL_DECIMAL.fullmatch, numbers)):
        raise InvalidArgumentError(
            f"--step-time is {text[:60]!r}; give four numbers of microseconds: of a step, a prefilled token, a "
            "decoding sequence, a token of context; such as linear:9000:20:5:0.03"
        )
    step, prefilled, sequence, context = (float(number) / 1e6 for number in numbers)
    return LinearTime(step, prefilled, sequence, context)


def _named(rest: str) -> NamedRoofline:
    # Imported here: most runs need neither models nor GPUs.
    from pagedkv.cli.named_model import find_model
    from pagedkv.model_config import read_shape
    from pagedkv.plan import read_catalog, weights_of

    parts = rest.split(":")
    if len(parts) not in (2, 3) or (len(parts) == 3 and re.fullmatch(r"[0-9]{1,4}", parts[2], re.ASCII) is None):
        raise InvalidArgumentError(f"--step-time is 'roofline:{rest[:50]}'; give roofline:MODEL:GPU or ...:GPUS")
    catalog = read_catalog()
    model, gpu = find_model(parts[0], catalog), catalog.gpu(parts[1])
    try:
        weights = weights_of(model, read_shape(model.config))
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"{error}. `pagedkv plan --trace` takes it, and --step-time roofline") from error
    return roofline_of(model, weights, gpu, int(parts[2]) if len(parts) == 3 else 1)


def roofline_of(
    model: Model, weights: Weights, gpu: Gpu, gpus: int, *, token_bytes: int | None = None
) -> NamedRoofline:
    """Return the roofline of a model on these GPUs. token_bytes: of a rank's cache; None: in the config's own format.

    Errors: InvalidArgumentError for what is not known of them.
    """
    from pagedkv.model_config import read_shape
    from pagedkv.plan.planner import rank_layout
    from pagedkv.plan.step_costs import step_costs

    ranks = whole_number(gpus, "GPUs of the roofline", minimum=1, maximum=INT32_MAX)
    if token_bytes is None:
        token_bytes = rank_layout(read_shape(model.config, ranks), 16).token_bytes  # whatever the block's size
    costs = asdict(step_costs(model, weights, gpu, ranks))
    roofline = Roofline(kv_token_bytes=token_bytes, **costs)
    return NamedRoofline(roofline, token_bytes, model.name, gpu.name, ranks, weights.source)
