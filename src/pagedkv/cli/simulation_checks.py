"""What does not go together in the options of `pagedkv simulate`: refused before anything is read."""

from __future__ import annotations

from pagedkv.arguments import INT32_MAX, whole_number
from pagedkv.cli.simulation_load import check_synthetic
from pagedkv.cli.simulation_options import SimulateOptions
from pagedkv.errors import InvalidArgumentError


def check_combination(options: SimulateOptions) -> None:
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
    if options.compare and options.max_batched_tokens is not None:
        raise InvalidArgumentError(
            "--compare is about systems that store a prompt at once; leave it out, or --max-batched-tokens"
        )
    if options.step_ms is not None and options.step_time is not None:
        raise InvalidArgumentError("--step-ms and --step-time both say how long a step takes; give one of them")
    _check_load(options)


def _check_load(options: SimulateOptions) -> None:
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
    arrivals = options.synthetic.arrivals
    if options.trace is not None and drawn and not (drawn == ["--arrivals"] and arrivals in ("closed", "offline")):
        raise InvalidArgumentError(
            f"{drawn[0]} draws requests and --trace replays a file's; give one of them (but --arrivals closed or "
            "offline)"
        )
    if options.trace is not None and drawn and options.step_ms is not None:
        raise InvalidArgumentError(
            f"--step-ms keeps a trace's times and --arrivals {arrivals} has none; give one of them"
        )
    if options.trace is None and drawn:
        check_synthetic(options.synthetic, timed=options.has_clock, must_be_timed=options.step_ms is not None)


def check_caps(options: SimulateOptions) -> None:
    """Refuse bad numbers before a large trace is read; Load checks them too."""
    for name, value in (
        ("--concurrency", options.concurrency),
        ("--completions", options.completions),
        ("--max-seqs", options.max_seqs),
        ("--max-seq-len", options.max_seq_len),
        ("--max-batched-tokens", options.max_batched_tokens),
    ):
        if value is not None:
            whole_number(value, name, minimum=1, maximum=INT32_MAX)


def check_pool_options(options: SimulateOptions) -> None:
    """Refuse two sizes of one pool. Errors: InvalidArgumentError."""
    if options.blocks is not None and options.pool_size is not None:
        raise InvalidArgumentError("--blocks and --pool-size both say how large the pool is; give one of them")


def check_limit(options: SimulateOptions) -> None:
    """Refuse a bad --limit before a large trace is read. Errors: InvalidArgumentError."""
    if options.limit is not None:
        whole_number(options.limit, "--limit", minimum=1)
