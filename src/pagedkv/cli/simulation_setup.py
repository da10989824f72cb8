"""From the options of `pagedkv simulate` to a run: everything is checked here, before the first step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pagedkv.arguments import INT32_MAX
from pagedkv.cli.quantities import block_count, step_ticks, watermark_blocks
from pagedkv.cli.simulation_checks import check_caps, check_combination, check_limit
from pagedkv.cli.simulation_groups import read_batching, read_groups
from pagedkv.cli.simulation_load import synthetic_load
from pagedkv.cli.simulation_options import SimulateOptions
from pagedkv.cli.step_time import NamedRoofline, read_step_time
from pagedkv.errors import InvalidArgumentError
from pagedkv.layout import OpaqueLayout, parse_bytes
from pagedkv.simulate import DeviceChoice, Groups, Load, PoolSpec, Trace, base_case, choose_device, read_trace
from pagedkv.simulate.batching import Batching
from pagedkv.simulate.step_time import StepTime
from pagedkv.simulate.workload import BASE_CASE_MAX_SEQ_LEN, Workload

POOL_SIZE = "256MiB"
BLOCK_SIZE = 16
CONCURRENCY = 8
COMPLETIONS = 100
SEED = 42
TOKEN_BYTES = 512
MODELED = "seconds come from a model of a step, not from a measurement; blocks and steps are the manager's own"
WAS_SORTED = "the trace is not sorted by time; it was sorted, equal times in file order"


@dataclass(frozen=True, slots=True)
class Setup:
    """A run that can start, and what its document says of it."""

    spec: PoolSpec
    load: Load
    choice: DeviceChoice
    trace: Trace | None
    config: dict[str, Any]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Policies:
    """What a request is, what a step may compute, and how long it takes."""

    groups: Groups
    batching: Batching
    step_time: StepTime | None


def prepare(options: SimulateOptions, step_time: StepTime | None = None) -> Setup:
    """Check the options, read the trace, choose the device. step_time: in the place of the option's.

    Errors: InvalidArgumentError, TraceError, BackendError. Reads the trace; changes nothing.
    """
    check_combination(options)
    policies = _policies(options, step_time)
    block_size = BLOCK_SIZE if options.block_size is None else options.block_size
    spec = pool(options, block_size, _token_bytes(options, policies.step_time))
    choice = choose_device(
        options.device, options.verify, verify_by_default=_is_base_case(options), pool_bytes=spec.nbytes
    )
    ticks = None if options.step_ms is None else step_ticks(options.step_ms)
    check_limit(options)
    trace = None
    if _is_base_case(options):
        load = _base_case(options, policies)
    else:
        check_caps(options)
        if options.trace is None:
            workload = synthetic_load(options.synthetic, _seed(options), strict=options.strict).draw()
        else:
            trace = read_trace(options.trace, strict=options.strict, format=options.format)
            workload = limited(trace, options)
            if ticks is not None and workload.arrival_ticks is None:
                raise InvalidArgumentError("--step-ms is about times and the trace has none; leave it out")
        load = _replay(options, policies, workload, ticks)
        load.tokens(spec.layout.block_size)  # blocks that do not divide what the trace tells show here
    return Setup(spec, load, choice, trace, _config(options, spec, load, choice), tuple(_notes(options, trace)))


def _policies(options: SimulateOptions, step_time: StepTime | None) -> Policies:
    groups = read_groups(options.samples, options.beam_width, options.beam_survival, options.admission)
    if step_time is None and options.step_time is not None:
        step_time = read_step_time(options.step_time)
    return Policies(groups, read_batching(options, groups), step_time)


def _token_bytes(options: SimulateOptions, step_time: StepTime | None) -> int:
    if options.token_bytes is not None:
        return options.token_bytes
    return step_time.token_bytes if isinstance(step_time, NamedRoofline) else TOKEN_BYTES


def limited(trace: Trace, options: SimulateOptions) -> Workload:
    """Return the requests of the trace that take part."""
    return trace.workload if options.limit is None else trace.workload.first(options.limit)


def _is_base_case(options: SimulateOptions) -> bool:
    return options.trace is None and not options.synthetic.given


def pool(options: SimulateOptions, block_size: int, token_bytes: int) -> PoolSpec:
    """Return the pool of these options. Errors: InvalidArgumentError."""
    layout = OpaqueLayout(token_bytes, block_size)
    if options.blocks is not None:
        num_blocks = block_count(options.blocks)
    else:
        asked = options.pool_size if options.pool_size is not None else POOL_SIZE
        num_blocks = layout.blocks_in(parse_bytes(asked))
        if num_blocks == 0:
            raise InvalidArgumentError(
                f"--pool-size {asked} holds no block of {layout.block_bytes} bytes; give at least one block's bytes"
            )
        if num_blocks > INT32_MAX:
            raise InvalidArgumentError(
                f"--pool-size {asked} holds {num_blocks} blocks of {layout.block_bytes} bytes and block ids end at "
                f"{INT32_MAX}; give larger blocks or a smaller pool"
            )
    layout.pool_bytes(num_blocks)  # an address space that is too small shows here
    return PoolSpec(layout, num_blocks, watermark_blocks(options.watermark, num_blocks))


def _base_case(options: SimulateOptions, policies: Policies) -> Load:
    completions = COMPLETIONS if options.completions is None else options.completions
    seed = _seed(options)
    return Load(
        workload=None if options.closed_loop else base_case(completions, seed),
        concurrency=CONCURRENCY if options.concurrency is None else options.concurrency,
        max_seqs=options.max_seqs,
        completions=completions if options.closed_loop else None,
        max_seq_len=BASE_CASE_MAX_SEQ_LEN if options.max_seq_len is None else options.max_seq_len,
        seed=seed,
        groups=policies.groups,
        prefix_caching=options.prefix_caching,
        batching=policies.batching,
        step_time=policies.step_time,
    )


def _seed(options: SimulateOptions) -> int:
    return SEED if options.seed is None else options.seed


def _replay(options: SimulateOptions, policies: Policies, workload: Workload, ticks: int | None) -> Load:
    closed = options.synthetic.closed
    has_times = workload.arrival_ticks is not None and not closed and not options.offline
    return Load(
        workload=workload,
        step_ticks=ticks,
        closed=closed,
        concurrency=CONCURRENCY if closed and options.concurrency is None else options.concurrency,
        max_seqs=options.max_seqs,
        completions=options.completions,
        max_seq_len=options.max_seq_len,
        seed=_seed(options),
        groups=policies.groups,
        prefix_caching=options.prefix_caching,
        batching=policies.batching,
        step_time=policies.step_time,
        timed=policies.step_time is not None and has_times,
    )


def _config(options: SimulateOptions, spec: PoolSpec, load: Load, choice: DeviceChoice) -> dict[str, Any]:
    base_case = _is_base_case(options)
    synthetic = options.trace is None and not base_case
    return {
        "trace": options.trace,
        "synthetic": options.synthetic.described(load.seed) if synthetic else None,
        "arrivals_closed": load.closed,
        "closed_loop": options.closed_loop,
        "blocks": spec.num_blocks,
        "pool_bytes": spec.nbytes,
        "block_size": spec.layout.block_size,
        "token_bytes": spec.layout.token_bytes,
        "max_seq_len": load.max_seq_len,
        "concurrency": load.concurrency,
        "completions": (load.completions or COMPLETIONS)
        if load.workload is None
        else _wanted(load, base_case=base_case),
        "samples": load.groups.samples,
        "beam_width": load.groups.beam_width,
        "beam_survival": load.groups.beam_survival if load.groups.beam_width > 1 else None,
        "seed": load.seed if options.trace is None or load.groups.beam_width > 1 else None,
        "limit": options.limit,
        "step_ms": options.step_ms,
        "step_ticks": load.step_ticks,
        "step_time": None if load.step_time is None else load.step_time.described(),
        "timed": load.timed,
        "max_batched_tokens": load.batching.max_batched_tokens,
        "chunked_prefill": load.batching.chunked_prefill,
        "max_seqs": load.max_seqs,
        "admission": load.groups.admission,
        "watermark": spec.watermark,
        "prefix_caching": load.prefix_caching,
        "cache_only": False,
        "compare": options.compare,
        "device": choice.device,
        "strict": options.strict,
        "verify": choice.verify,
    }


def _wanted(load: Load, *, base_case: bool) -> int | None:
    return len(load.workload) if base_case and load.workload is not None else load.completions


def _notes(options: SimulateOptions, trace: Trace | None) -> list[str]:
    notes = [] if options.step_time is None else [MODELED]
    if trace is not None and options.seed is not None and options.beam_width == 1:
        notes.append("--seed has no effect: a trace is replayed, not drawn")
    if trace is not None and options.prefix_caching and not trace.workload.tells_contents:
        notes.append(
            "the trace does not say what its prompts hold: only a preempted request finds its own tokens again"
        )
    if trace is not None and not trace.was_sorted:
        notes.append(WAS_SORTED)
    return notes
