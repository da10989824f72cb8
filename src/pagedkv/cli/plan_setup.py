"""From the options of `pagedkv plan` to a plan: everything is checked here, before a trace is simulated."""

from __future__ import annotations

from dataclasses import dataclass

from pagedkv.arguments import INT32_MAX, whole_number
from pagedkv.cli.named_model import find_model
from pagedkv.cli.quantities import share, token_lengths
from pagedkv.cli.simulation_options import SimulateOptions
from pagedkv.cli.simulation_setup import Setup, prepare
from pagedkv.cli.step_time import roofline_of
from pagedkv.dtypes import dtype_of
from pagedkv.errors import InvalidArgumentError
from pagedkv.layout import parse_bytes
from pagedkv.model_config import language_fields, read_shape
from pagedkv.plan import Catalog, Demand, Gpu, Model, Plan, make_plan, read_catalog, weights_of
from pagedkv.plan.planner import MOST_RANKS

SHORTEST, LONGEST = 1024, 128 * 1024


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """The options as they were given; None: not given."""

    model: str
    gpu: str | None
    gpu_memory: str | None
    weights: str | None
    weight_dtype: str | None
    tensor_parallel: int
    utilization: str
    reserve: str
    block_size: int
    kv_dtype: str | None
    kv_scales: bool
    lengths: str | None
    catalog: tuple[str, ...]
    trace: str | None
    limit: int | None
    step_ms: str | None
    step_time: str | None
    max_seqs: int | None
    max_batched_tokens: int | None
    chunked_prefill: bool
    prefix_caching: bool
    strict: bool


@dataclass(frozen=True, slots=True)
class PlanSetup:
    """A plan, the lengths to answer for, and a simulation that can start where there is a trace."""

    options: PlanOptions
    gpu: Gpu
    plan: Plan
    lengths: tuple[int, ...]
    longest: int | None
    simulation: Setup | None


def prepare_plan(options: PlanOptions) -> PlanSetup:
    """Check the options, read config, catalogs and trace, and plan.

    Errors: InvalidArgumentError, TraceError. Reads files; changes nothing.
    """
    _check_combination(options)
    catalog = read_catalog(*options.catalog)
    gpu, model = _gpu(options, catalog), find_model(options.model, catalog)
    longest = _longest(model)
    given = None if options.lengths is None else token_lengths(options.lengths, "--lengths")
    plan = make_plan(_demand(options, gpu, model))
    lengths = _usual_lengths(longest) if given is None else given
    return PlanSetup(options, gpu, plan, lengths, longest, _simulation(options, plan, gpu))


def _check_combination(options: PlanOptions) -> None:
    if (options.gpu is None) == (options.gpu_memory is None):
        raise InvalidArgumentError("give --gpu NAME or --gpu-memory SIZE, one of them: the memory of one GPU")
    if options.weights is not None and options.weight_dtype is not None:
        raise InvalidArgumentError("--weights is their size already; leave out --weight-dtype")
    if options.trace is not None:
        return
    for name, given in (
        ("--limit", options.limit is not None),
        ("--step-ms", options.step_ms is not None),
        ("--step-time", options.step_time is not None),
        ("--max-seqs", options.max_seqs is not None),
        ("--max-batched-tokens", options.max_batched_tokens is not None),
        ("--chunked-prefill", options.chunked_prefill),
        ("--prefix-caching", options.prefix_caching),
        ("--strict", options.strict),
    ):
        if given:
            raise InvalidArgumentError(f"{name} is about a trace and there is none; give --trace FILE, or leave it out")


def _gpu(options: PlanOptions, catalog: Catalog) -> Gpu:
    if options.gpu is not None:
        return catalog.gpu(options.gpu)
    assert options.gpu_memory is not None
    return Gpu("", parse_bytes(options.gpu_memory), "--gpu-memory")


def _demand(options: PlanOptions, gpu: Gpu, model: Model) -> Demand:
    given = None if options.weights is None else parse_bytes(options.weights)
    whole_number(options.tensor_parallel, "--tensor-parallel", minimum=1, maximum=MOST_RANKS)
    whole_number(options.block_size, "--block-size", minimum=1, maximum=INT32_MAX)
    return Demand(
        model=model,
        gpu_bytes=gpu.memory_bytes,
        weights=weights_of(model, read_shape(model.config), given=given, dtype=options.weight_dtype),
        tensor_parallel=options.tensor_parallel,
        utilization=share(options.utilization, "--utilization"),
        reserve_bytes=0 if options.reserve.strip() == "0" else parse_bytes(options.reserve),
        block_size=options.block_size,
        kv_dtype=None if options.kv_dtype is None else dtype_of(options.kv_dtype).name,
        kv_scales=options.kv_scales,
    )


def _longest(model: Model) -> int | None:
    """The longest sequence that the model is made for, where its config says so."""
    value = language_fields(model.config).get("max_position_embeddings")
    return None if value is None else whole_number(value, "max_position_embeddings", minimum=1, maximum=INT32_MAX)


def _usual_lengths(longest: int | None) -> tuple[int, ...]:
    most = min(LONGEST, longest or LONGEST)
    powers = range(SHORTEST.bit_length() - 1, most.bit_length())
    return tuple(1 << power for power in powers) or (most,)


def _simulation(options: PlanOptions, plan: Plan, gpu: Gpu) -> Setup | None:
    """The same run as `pagedkv simulate --device null` over a pool of these blocks."""
    if options.trace is None:
        return None
    own = options.step_time == "roofline"
    demand = plan.demand
    roofline = None
    if own:
        roofline = roofline_of(
            demand.model, demand.weights, gpu, demand.tensor_parallel, token_bytes=plan.layout.token_bytes
        )
    return prepare(
        SimulateOptions(
            trace=options.trace,
            blocks=plan.blocks,
            block_size=plan.layout.block_size,
            token_bytes=plan.layout.token_bytes,
            limit=options.limit,
            step_ms=options.step_ms,
            step_time=options.step_time,
            max_seqs=options.max_seqs,
            max_batched_tokens=options.max_batched_tokens,
            chunked_prefill=options.chunked_prefill,
            prefix_caching=options.prefix_caching,
            device="null",
            strict=options.strict,
        ),
        roofline,
    )
