"""From the options of `pagedkv simulate` to a run: everything is checked here, before the first step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pagedkv.arguments import INT32_MAX, whole_number
from pagedkv.cli.quantities import block_count, step_ticks, watermark_blocks
from pagedkv.cli.simulation_groups import read_groups
from pagedkv.cli.simulation_load import SyntheticOptions, check_synthetic, synthetic_load
from pagedkv.errors import InvalidArgumentError
from pagedkv.layout import OpaqueLayout, parse_bytes
from pagedkv.simulate import DeviceChoice, Groups, Load, PoolSpec, Trace, base_case, choose_device, read_trace
from pagedkv.simulate.workload import BASE_CASE_MAX_SEQ_LEN, Workload

POOL_SIZE = "256MiB"
BLOCK_SIZE = 16
CONCURRENCY = 8
COMPLETIONS = 100
SEED = 42
WAS_SORTED = "the trace is not sorted by time; it was sorted, equal times in file order"


@dataclass(frozen=True, slots=True)
class SimulateOptions:
    """The options as they were given; None: not given."""

    trace: str | None = None
    format: str | None = None
    synthetic: SyntheticOptions = field(default_factory=SyntheticOptions)
    save_trace: str | None = None
    closed_loop: bool = False
    pool_size: str | None = None
    blocks: int | None = None
    block_size: int | None = None
    token_bytes: int = 512
    max_seq_len: int | None = None
    concurrency: int | None = None
    completions: int | None = None
    samples: int = 1
    beam_width: int = 1
    beam_survival: str | None = None
    seed: int | None = None
    limit: int | None = None
    step_ms: str | None = None
    max_seqs: int | None = None
    admission: str = "grow"
    watermark: str = "0"
    prefix_caching: bool = False
    cache_only: bool = False
    compare: bool = False
    device: str = "auto"
    strict: bool = False
    verify: bool | None = None


@dataclass(frozen=True, slots=True)
class Setup:
    """A run that can start, and what its document says of it."""

    spec: PoolSpec
    load: Load
    choice: DeviceChoice
    trace: Trace | None
    config: dict[str, Any]
    notes: tuple[str, ...]


def prepare(options: SimulateOptions) -> Setup:
    """Check the options, read the trace, choose the device.

    Errors: InvalidArgumentError, TraceError, BackendError. Reads the trace; changes nothing.
    """
    _check_combination(options)
    groups = read_groups(options.samples, options.beam_width, options.beam_survival, options.admission)
    spec = pool(options, BLOCK_SIZE if options.block_size is None else options.block_size)
    choice = choose_device(
        options.device, options.verify, verify_by_default=_is_base_case(options), pool_bytes=spec.nbytes
    )
    ticks = None if options.step_ms is None else step_ticks(options.step_ms)
    check_limit(options)
    trace = None
    if _is_base_case(options):
        load = _base_case(options, groups)
    else:
        _check_caps(options)
        if options.trace is None:
            workload = synthetic_load(options.synthetic, _seed(options), strict=options.strict).draw()
        else:
            trace = read_trace(options.trace, strict=options.strict, format=options.format)
            workload = limited(trace, options)
            if ticks is not None and workload.arrival_ticks is None:
                raise InvalidArgumentError("--step-ms is about times and the trace has none; leave it out")
        load = _replay(options, groups, workload, ticks)
        load.tokens(spec.layout.block_size)  # blocks that do not divide what the trace tells show here
    return Setup(spec, load, choice, trace, _config(options, spec, load, choice), tuple(_notes(options, trace)))


def check_pool_options(options: SimulateOptions) -> None:
    """Refuse two sizes of one pool. Errors: InvalidArgumentError."""
    if options.blocks is not None and options.pool_size is not None:
        raise InvalidArgumentError("--blocks and --pool-size both say how large the pool is; give one of them")


def check_limit(options: SimulateOptions) -> None:
    """Refuse a bad --limit before a large trace is read. Errors: InvalidArgumentError."""
    if options.limit is not None:
        whole_number(options.limit, "--limit", minimum=1)


def limited(trace: Trace, options: SimulateOptions) -> Workload:
    """Return the requests of the trace that take part."""
    return trace.workload if options.limit is None else trace.workload.first(options.limit)


def _check_combination(options: SimulateOptions) -> None:
    check_pool_options(options)
    if options.prefix_caching and max(options.samples, options.beam_width) > 1:
        raise InvalidArgumentError(
            "--prefix-caching is about single sequences; leave it out, or --samples and --beam-width"
        )
    if options.compare and (options.prefix_caching or max(options.samples, options.beam_width) > 1):
        raise InvalidArgumentError(
            "--compare is about single sequences that share nothing; leave it out, or --prefix-caching, --samples and "
            "--beam-width"
        )
    drawn = options.synthetic.given
    if options.trace is None:
        for name, given in (
            ("--step-ms", options.step_ms is not None and not drawn),
            ("--limit", options.limit is not None),
            ("--strict", options.strict and options.synthetic.lengths_from is None),
            ("--format", options.format is not None),
        ):
            if given:
                raise InvalidArgumentError(
                    f"{name} is about a trace and there is none; give --trace FILE, or leave it out"
                )
    elif options.closed_loop:
        raise InvalidArgumentError("--closed-loop draws its requests and --trace replays a file's; give one of them")
    if options.closed_loop and (drawn or options.save_trace is not None):
        name = drawn[0] if drawn else "--save-trace"
        raise InvalidArgumentError(f"--closed-loop is the base case without end; give --arrivals closed for {name}")
    if options.trace is not None and drawn and not (drawn == ["--arrivals"] and options.synthetic.closed):
        raise InvalidArgumentError(
            f"{drawn[0]} draws requests and --trace replays a file's; give one of them (but --arrivals closed)"
        )
    if options.trace is not None and drawn and options.step_ms is not None:
        raise InvalidArgumentError("--step-ms keeps a trace's times and --arrivals closed has none; give one of them")
    if options.trace is None and drawn:
        check_synthetic(options.synthetic, timed=options.step_ms is not None)


def _is_base_case(options: SimulateOptions) -> bool:
    return options.trace is None and not options.synthetic.given


def _check_caps(options: SimulateOptions) -> None:
    """Refuse bad numbers before a large trace is read; Load checks them too."""
    for name, value in (
        ("--concurrency", options.concurrency),
        ("--completions", options.completions),
        ("--max-seqs", options.max_seqs),
        ("--max-seq-len", options.max_seq_len),
    ):
        if value is not None:
            whole_number(value, name, minimum=1, maximum=INT32_MAX)


def pool(options: SimulateOptions, block_size: int) -> PoolSpec:
    """Return the pool of these options. Errors: InvalidArgumentError."""
    layout = OpaqueLayout(options.token_bytes, block_size)
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


def _base_case(options: SimulateOptions, groups: Groups) -> Load:
    completions = COMPLETIONS if options.completions is None else options.completions
    seed = _seed(options)
    return Load(
        workload=None if options.closed_loop else base_case(completions, seed),
        concurrency=CONCURRENCY if options.concurrency is None else options.concurrency,
        max_seqs=options.max_seqs,
        completions=completions if options.closed_loop else None,
        max_seq_len=BASE_CASE_MAX_SEQ_LEN if options.max_seq_len is None else options.max_seq_len,
        seed=seed,
        groups=groups,
        prefix_caching=options.prefix_caching,
    )


def _seed(options: SimulateOptions) -> int:
    return SEED if options.seed is None else options.seed


def _replay(options: SimulateOptions, groups: Groups, workload: Workload, ticks: int | None) -> Load:
    closed = options.synthetic.closed
    return Load(
        workload=workload,
        step_ticks=ticks,
        closed=closed,
        concurrency=CONCURRENCY if closed and options.concurrency is None else options.concurrency,
        max_seqs=options.max_seqs,
        completions=options.completions,
        max_seq_len=options.max_seq_len,
        seed=_seed(options),
        groups=groups,
        prefix_caching=options.prefix_caching,
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
    notes = []
    if trace is not None and options.seed is not None and options.beam_width == 1:
        notes.append("--seed has no effect: a trace is replayed, not drawn")
    if trace is not None and options.prefix_caching and not trace.workload.tells_contents:
        notes.append(
            "the trace does not say what its prompts hold: only a preempted request finds its own tokens again"
        )
    if trace is not None and not trace.was_sorted:
        notes.append(WAS_SORTED)
    return notes
