"""Carries out `pagedkv simulate --prefix-caching --cache-only`: the prompts of a trace over the cache alone."""

from __future__ import annotations

from typing import Any

from pagedkv.arguments import whole_number
from pagedkv.cli.simulation_run import interruptible, trace_document
from pagedkv.cli.simulation_setup import WAS_SORTED, SimulateOptions, pool
from pagedkv.errors import InvalidArgumentError
from pagedkv.report.document import SCHEMA, Document, versions
from pagedkv.report.progress import RunProgress
from pagedkv.simulate import CacheReplay, CacheReplayResult, PoolSpec, Trace, read_trace


def run_cache_document(options: SimulateOptions, *, show_progress: bool) -> Document:
    """Check the options, read the trace, replay it and return the document. Ctrl-C ends it after a request.

    Errors: InvalidArgumentError, TraceError.
    """
    _check(options)
    limit = None if options.limit is None else whole_number(options.limit, "--limit", minimum=1)
    assert options.trace is not None
    trace = read_trace(options.trace, strict=options.strict)
    workload = trace.workload if limit is None else trace.workload.first(limit)
    spec = pool(options, 1 if workload.identities is None else workload.identities.tokens_per_id)
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
    if options.blocks is not None and options.pool_size is not None:
        raise InvalidArgumentError("--blocks and --pool-size both say how large the pool is; give one of them")
    if options.block_size is not None:
        raise InvalidArgumentError("--cache-only has the trace's own blocks; leave out --block-size")
    for name, given in (
        ("--closed-loop", options.closed_loop),
        ("--max-seq-len", options.max_seq_len is not None),
        ("--concurrency", options.concurrency is not None),
        ("--completions", options.completions is not None),
        ("--samples", options.samples != 1),
        ("--beam-width", options.beam_width != 1),
        ("--beam-survival", options.beam_survival is not None),
        ("--seed", options.seed is not None),
        ("--step-ms", options.step_ms is not None),
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
    figures = dict(result.figures)
    figures["dropped_rows_in_whole_file"] = trace.dropped_rows
    figures["bad_rows_in_whole_file"] = trace.bad_rows
    outcome = "INTERRUPTED" if result.interrupted else "PASS"
    return {
        "schema": SCHEMA,
        "command": "simulate",
        "outcome": "FAIL" if result.failures else outcome,
        "versions": versions(),
        "device": {
            "name": "null",
            "description": "no device",
            "reason": "the cache alone",
            "free_bytes": None,
            "total_bytes": None,
        },
        "config": _config(options, spec),
        "figures": figures,
        "rejections": [],
        "trace": trace_document(trace),
        "verification": None,
        "failures": list(result.failures),
        "notes": [] if trace.was_sorted else [WAS_SORTED],
    }


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
