"""Carries out `pagedkv simulate --prefix-caching --cache-only`: the prompts of a trace over the cache alone."""

from __future__ import annotations

from typing import Any

from pagedkv.cli.simulation_checks import check_limit, check_pool_options
from pagedkv.cli.simulation_options import SimulateOptions
from pagedkv.cli.simulation_run import document_of
from pagedkv.cli.simulation_setup import TOKEN_BYTES, WAS_SORTED, limited, pool
from pagedkv.cli.simulation_signal import interruptible
from pagedkv.errors import InvalidArgumentError
from pagedkv.report.document import Document
from pagedkv.report.progress import RunProgress
from pagedkv.simulate import CacheReplay, CacheReplayResult, PoolSpec, Trace, read_trace


def run_cache_document(options: SimulateOptions, *, show_progress: bool) -> Document:
    """Check the options, read the trace, replay it and return the document. Ctrl-C ends it after a request.

    Errors: InvalidArgumentError, TraceError.
    """
    _check(options)
    check_limit(options)
    assert options.trace is not None
    trace = read_trace(options.trace, strict=options.strict, format=options.format)
    workload = limited(trace, options)
    block_size = 1 if workload.identities is None else workload.identities.tokens_per_id
    spec = pool(options, block_size, TOKEN_BYTES if options.token_bytes is None else options.token_bytes)
    with RunProgress("requests", len(workload), enabled=show_progress) as progress:
        replay = CacheReplay(workload, spec.num_blocks, on_progress=progress.update)
        with interruptible(replay):
            result = replay.run()
    return _document(options, spec, trace, result)


def _check(options: SimulateOptions) -> None:
    if not options.prefix_caching:
        raise InvalidArgumentError("--cache-only replays the prefix cache alone; give --prefix-caching with it")
    if options.trace is None:
        raise InvalidArgumentError("--cache-only needs prompts of which is known what they hold; give --trace FILE")
    check_pool_options(options)
    if options.block_size is not None:
        raise InvalidArgumentError("--cache-only has the trace's own blocks; leave out --block-size")
    for name, given in (
        *((name, True) for name in options.synthetic.given),
        ("--save-trace", options.save_trace is not None),
        ("--closed-loop", options.closed_loop),
        ("--compare", options.compare),
        ("--max-seq-len", options.max_seq_len is not None),
        ("--concurrency", options.concurrency is not None),
        ("--completions", options.completions is not None),
        ("--samples", options.samples != 1),
        ("--beam-width", options.beam_width != 1),
        ("--beam-survival", options.beam_survival is not None),
        ("--seed", options.seed is not None),
        ("--step-ms", options.step_ms is not None),
        ("--step-time", options.step_time is not None),
        ("--max-batched-tokens", options.max_batched_tokens is not None),
        ("--chunked-prefill", options.chunked_prefill),
        ("--max-seqs", options.max_seqs is not None),
        ("--admission", options.admission != "grow"),
        ("--watermark", options.watermark != "0"),
        ("--device", options.device not in ("auto", "null")),
        ("--verify", options.verify is True),
    ):
        if given:
            raise InvalidArgumentError(
                f"{name} is about a run in steps, and --cache-only has none; leave out one of them"
            )


def _document(options: SimulateOptions, spec: PoolSpec, trace: Trace, result: CacheReplayResult) -> Document:
    device = {
        "name": "null",
        "description": "no device",
        "reason": "the cache alone",
        "free_bytes": None,
        "total_bytes": None,
    }
    notes = [] if trace.was_sorted else [WAS_SORTED]
    return document_of(result, trace, device, _config(options, spec), notes)


def _config(options: SimulateOptions, spec: PoolSpec) -> dict[str, Any]:
    """Return the options that have a meaning here, as they were resolved."""
    return {
        "trace": options.trace,
        "blocks": spec.num_blocks,
        "pool_bytes": spec.nbytes,
        "block_size": spec.layout.block_size,
        "token_bytes": spec.layout.token_bytes,
        "limit": options.limit,
        "prefix_caching": True,
        "cache_only": True,
        "device": "null",
        "strict": options.strict,
        "verify": False,
    }
