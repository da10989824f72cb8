"""`pagedkv simulate`: a request load over the real manager, with a dashboard or JSON."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pagedkv.cli.files import keep_apart
from pagedkv.cli.output import show
from pagedkv.cli.quantities import whole


def _whole(metavar: str, help: str) -> Any:
    return typer.Option(parser=whole, metavar=metavar, help=help)


def _text(metavar: str, help: str) -> Any:
    return typer.Option(metavar=metavar, help=help)


def _flag(names: str, help: str) -> Any:
    return typer.Option(names, help=help)


def simulate(
    trace: Annotated[str | None, _text("FILE", "Replay a trace, or a folder of sessions, not the base case.")] = None,
    format: Annotated[str | None, _text("NAME", "Trace: read it as this.  [default: by its first line]")] = None,
    closed_loop: Annotated[bool, _flag("--closed-loop", "Base case: draw one for every one that ends.")] = False,
    pool_size: Annotated[str | None, _text("SIZE", "Pool in bytes, or KiB/MiB/GiB.  [default: 256MiB]")] = None,
    blocks: Annotated[int | None, _whole("N", "Pool in blocks, instead of --pool-size.")] = None,
    block_size: Annotated[int | None, _whole("TOKENS", "Tokens a block.  [default: 16]")] = None,
    token_bytes: Annotated[int, _whole("BYTES", "KV bytes a token, all layers.")] = 512,
    max_seq_len: Annotated[
        int | None,
        _whole("TOKENS", "Contiguous reservation's length.  [default: the largest prompt + output; base case 256]"),
    ] = None,
    concurrency: Annotated[
        int | None, _whole("K", "Most requests at once, in contiguous reservation too.  [default: base case 8]")
    ] = None,
    completions: Annotated[int | None, _whole("N", "End after so many requests.  [default: base case 100]")] = None,
    samples: Annotated[int, _whole("N", "Sequences a request: samples that share its prompt.")] = 1,
    beam_width: Annotated[int, _whole("K", "Sequences a request: beams, copied over each other every step.")] = 1,
    beam_survival: Annotated[
        str | None, _text("P", "Probability that a beam continues itself in a step.  [default: 0.9]")
    ] = None,
    requests: Annotated[int | None, _whole("N", "Draw a load of so many requests.  [default: 1000]")] = None,
    arrivals: Annotated[
        str | None, _text("offline|poisson|gamma|closed", "Drawn load: when requests come.  [default: offline]")
    ] = None,
    rate: Annotated[str | None, _text("R", "Drawn load: first turns a second, of poisson and gamma.")] = None,
    burstiness: Annotated[str | None, _text("CV", "Drawn load: variation of gamma's gaps.  [default: 2]")] = None,
    prompt_lengths: Annotated[
        str | None, _text("SPEC", "Drawn load: N, uniform:LOW:HIGH, lognormal:MEAN:CV.  [default: lognormal:512:1]")
    ] = None,
    output_lengths: Annotated[str | None, _text("SPEC", "The same of outputs.  [default: lognormal:128:1]")] = None,
    lengths_from: Annotated[str | None, _text("FILE", "Drawn load: pairs of lengths of a trace.")] = None,
    turns: Annotated[int | None, _whole("N", "Drawn load: requests a session, each with all before.")] = None,
    turn_gap_ms: Annotated[
        str | None, _text("MS", "Drawn load: mean time between two turns' arrivals.  [default: 10000]")
    ] = None,
    system_prompt: Annotated[int | None, _whole("TOKENS", "Drawn load: a shared prompt before each session.")] = None,
    system_prompts: Annotated[int | None, _whole("N", "Drawn load: how many different ones.  [default: 1]")] = None,
    save_trace: Annotated[str | None, _text("FILE", "Write the requests as a trace; .gz packs it.")] = None,
    seed: Annotated[
        int | None, _whole("N", "Seed of the base case, of drawn loads and of beams.  [default: 42]")
    ] = None,
    limit: Annotated[int | None, _whole("N", "Trace: only its first N requests.")] = None,
    step_ms: Annotated[
        str | None, _text("MS", "Keep the times, a step in MS milliseconds.  [default: all at step 0]")
    ] = None,
    max_seqs: Annotated[int | None, _whole("N", "Most requests that the scheduler runs at once.")] = None,
    admission: Annotated[
        str, _text("grow|final", "Admit what fits now, or only what fits to its end, so nothing is preempted.")
    ] = "grow",
    watermark: Annotated[
        str, _text("BLOCKS|PERCENT", "Blocks that admission leaves free; a percentage is rounded down.")
    ] = "0",
    prefix_caching: Annotated[
        bool, _flag("--prefix-caching", "Look prompts up in what was stored before; a trace may say what they hold.")
    ] = False,
    cache_only: Annotated[
        bool, _flag("--cache-only", "With --prefix-caching: replay a trace's prompts over the cache alone, no steps.")
    ] = False,
    compare: Annotated[
        bool, _flag("--compare", "Run contiguous systems beside the paged one: max, pow2, oracle x placement.")
    ] = False,
    device: Annotated[
        str, _text("auto|host|null|cuda:N", "Where the pool is; null has addresses and no bytes.")
    ] = "auto",
    strict: Annotated[bool, _flag("--strict", "Trace: the first bad row is an error.")] = False,
    verify: Annotated[
        bool | None, _flag("--verify/--no-verify", "Write and compare every token's bytes.  [default: base case only]")
    ] = None,
    json: Annotated[
        str | None, _text("FILE", "Write the figures as JSON; - is standard output, in the dashboard's place.")
    ] = None,
    quiet: Annotated[bool, _flag("--quiet", "Print the closing line only.")] = False,
) -> None:
    """Simulate a request load: does it fit, how full is the pool, what is wasted, what does paging save.

    Exit code: 0 PASS, 1 FAIL or nothing completed, 2 bad input, 130 interrupted (with the figures so far).
    """
    # Imported here: `pagedkv --version` and `doctor` must work where a part of the package does not.
    from pagedkv.cli.simulation_cache import run_cache_document
    from pagedkv.cli.simulation_load import SyntheticOptions
    from pagedkv.cli.simulation_run import EXIT_CODES, run_document
    from pagedkv.cli.simulation_setup import SimulateOptions, prepare
    from pagedkv.report.document import JsonFile
    from pagedkv.report.simulation import dashboard
    from pagedkv.simulate import write_trace

    options = SimulateOptions(
        trace=trace,
        format=format,
        synthetic=SyntheticOptions(
            requests=requests,
            arrivals=arrivals,
            rate=rate,
            burstiness=burstiness,
            prompt_lengths=prompt_lengths,
            output_lengths=output_lengths,
            lengths_from=lengths_from,
            turns=turns,
            turn_gap_ms=turn_gap_ms,
            system_prompt=system_prompt,
            system_prompts=system_prompts,
        ),
        save_trace=save_trace,
        closed_loop=closed_loop,
        pool_size=pool_size,
        blocks=blocks,
        block_size=block_size,
        token_bytes=token_bytes,
        max_seq_len=max_seq_len,
        concurrency=concurrency,
        completions=completions,
        samples=samples,
        beam_width=beam_width,
        beam_survival=beam_survival,
        seed=seed,
        limit=limit,
        step_ms=step_ms,
        max_seqs=max_seqs,
        admission=admission,
        watermark=watermark,
        prefix_caching=prefix_caching,
        cache_only=cache_only,
        compare=compare,
        device=device,
        strict=strict,
        verify=verify,
    )
    keep_apart({"--trace": trace, "--lengths-from": lengths_from}, {"--json": json, "--save-trace": save_trace})
    target = None if json is None else JsonFile(json)
    try:
        hidden = quiet or (target is not None and target.is_stdout)
        if cache_only:
            document = run_cache_document(options, show_progress=not hidden)
        else:
            setup = prepare(options)
            if save_trace is not None and setup.load.workload is not None:
                write_trace(setup.load.workload, save_trace)
            document = run_document(setup, show_progress=not hidden)
    except BaseException:
        if target is not None:
            target.discard()
        raise
    # The dashboard first: should the file fail after all, the figures are not lost.
    show(dashboard(document), quiet=quiet, json_on_stdout=target is not None and target.is_stdout)
    if target is not None:
        target.write(document)
    raise typer.Exit(EXIT_CODES[document["outcome"]])
