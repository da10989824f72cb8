"""`pagedkv simulate`: a request load over the real manager, with a dashboard or JSON."""

from __future__ import annotations

from typing import Annotated, Any

from pagedkv.cli.files import keep_apart
from pagedkv.cli.options import flag_option, text_option, whole_option
from pagedkv.cli.output import deliver


def simulate(
    trace: Annotated[
        str | None, text_option("FILE", "Replay a trace, or a folder of sessions, not the base case.")
    ] = None,
    format: Annotated[str | None, text_option("NAME", "Trace: read it as this.  [default: by its first line]")] = None,
    closed_loop: Annotated[bool, flag_option("--closed-loop", "Base case: draw one for every one that ends.")] = False,
    pool_size: Annotated[str | None, text_option("SIZE", "Pool in bytes, or KiB/MiB/GiB.  [default: 256MiB]")] = None,
    blocks: Annotated[int | None, whole_option("N", "Pool in blocks, instead of --pool-size.")] = None,
    block_size: Annotated[int | None, whole_option("TOKENS", "Tokens a block.  [default: 16]")] = None,
    token_bytes: Annotated[
        int | None, whole_option("BYTES", "KV bytes a token, all layers.  [default: 512, or the roofline's model's]")
    ] = None,
    max_seq_len: Annotated[
        int | None,
        whole_option(
            "TOKENS", "Contiguous reservation's length.  [default: the largest prompt + output; base case 256]"
        ),
    ] = None,
    concurrency: Annotated[
        int | None, whole_option("K", "Most requests at once, in contiguous reservation too.  [default: base case 8]")
    ] = None,
    completions: Annotated[
        int | None, whole_option("N", "End after so many requests.  [default: base case 100]")
    ] = None,
    samples: Annotated[int, whole_option("N", "Sequences a request: samples that share its prompt.")] = 1,
    beam_width: Annotated[int, whole_option("K", "Sequences a request: beams, copied over each other every step.")] = 1,
    beam_survival: Annotated[
        str | None, text_option("P", "Probability that a beam continues itself in a step.  [default: 0.9]")
    ] = None,
    requests: Annotated[int | None, whole_option("N", "Draw a load of so many requests.  [default: 1000]")] = None,
    arrivals: Annotated[
        str | None, text_option("offline|poisson|gamma|closed", "Drawn load: when requests come.  [default: offline]")
    ] = None,
    rate: Annotated[str | None, text_option("R", "Drawn load: first turns a second, of poisson and gamma.")] = None,
    burstiness: Annotated[str | None, text_option("CV", "Drawn load: variation of gamma's gaps.  [default: 2]")] = None,
    prompt_lengths: Annotated[
        str | None,
        text_option("SPEC", "Drawn load: N, uniform:LOW:HIGH, lognormal:MEAN:CV.  [default: lognormal:512:1]"),
    ] = None,
    output_lengths: Annotated[
        str | None, text_option("SPEC", "The same of outputs.  [default: lognormal:128:1]")
    ] = None,
    lengths_from: Annotated[str | None, text_option("FILE", "Drawn load: pairs of lengths of a trace.")] = None,
    turns: Annotated[int | None, whole_option("N", "Drawn load: requests a session, each with all before.")] = None,
    turn_gap_ms: Annotated[
        str | None, text_option("MS", "Drawn load: mean time between two turns' arrivals.  [default: 10000]")
    ] = None,
    system_prompt: Annotated[
        int | None, whole_option("TOKENS", "Drawn load: a shared prompt before each session.")
    ] = None,
    system_prompts: Annotated[
        int | None, whole_option("N", "Drawn load: how many different ones.  [default: 1]")
    ] = None,
    save_trace: Annotated[str | None, text_option("FILE", "Write the requests as a trace; .gz packs it.")] = None,
    seed: Annotated[
        int | None, whole_option("N", "Seed of the base case, of drawn loads and of beams.  [default: 42]")
    ] = None,
    limit: Annotated[int | None, whole_option("N", "Trace: only its first N requests.")] = None,
    step_ms: Annotated[
        str | None, text_option("MS", "Keep the times, a step in MS milliseconds.  [default: all at step 0]")
    ] = None,
    step_time: Annotated[
        str | None, text_option("MODEL", "Keep the times, a step as long as linear:..., fit:FILE or roofline:... says.")
    ] = None,
    max_seqs: Annotated[int | None, whole_option("N", "Most requests that the scheduler runs at once.")] = None,
    max_batched_tokens: Annotated[
        int | None, whole_option("TOKENS", "Most tokens that a step computes, prompts included.")
    ] = None,
    chunked_prefill: Annotated[
        bool, flag_option("--chunked-prefill", "Store a prompt piece by piece where the step's tokens end.")
    ] = False,
    admission: Annotated[
        str, text_option("grow|final", "Admit what fits now, or only what fits to its end, so nothing is preempted.")
    ] = "grow",
    watermark: Annotated[
        str, text_option("BLOCKS|PERCENT", "Blocks that admission leaves free; a percentage is rounded down.")
    ] = "0",
    prefix_caching: Annotated[
        bool,
        flag_option("--prefix-caching", "Look prompts up in what was stored before; a trace may say what they hold."),
    ] = False,
    cache_only: Annotated[
        bool,
        flag_option("--cache-only", "With --prefix-caching: replay a trace's prompts over the cache alone, no steps."),
    ] = False,
    compare: Annotated[
        bool, flag_option("--compare", "Run contiguous systems beside the paged one: max, pow2, oracle x placement.")
    ] = False,
    device: Annotated[
        str, text_option("auto|host|null|cuda:N", "Where the pool is; null has addresses and no bytes.")
    ] = "auto",
    strict: Annotated[bool, flag_option("--strict", "Trace: the first bad row is an error.")] = False,
    verify: Annotated[
        bool | None,
        flag_option("--verify/--no-verify", "Write and compare every token's bytes.  [default: base case only]"),
    ] = None,
    json: Annotated[
        str | None, text_option("FILE", "Write the figures as JSON; - is standard output, in the dashboard's place.")
    ] = None,
    report: Annotated[
        str | None, text_option("FILE", "Write an HTML page of the run; needs the extra `report`.")
    ] = None,
    quiet: Annotated[bool, flag_option("--quiet", "Print the closing line only.")] = False,
) -> None:
    """Simulate a request load: does it fit, how full is the pool, what is wasted, what does paging save.

    Exit code: 0 PASS, 1 FAIL or nothing completed, 2 bad input, 130 interrupted (with the figures so far).
    """
    # Imported here: `pagedkv --version` and `doctor` must work where a part of the package does not.
    from pagedkv.cli.simulation_cache import run_cache_document
    from pagedkv.cli.simulation_load import SyntheticOptions
    from pagedkv.cli.simulation_options import SimulateOptions
    from pagedkv.cli.simulation_run import run_document
    from pagedkv.cli.simulation_setup import prepare
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
        step_time=step_time,
        max_seqs=max_seqs,
        max_batched_tokens=max_batched_tokens,
        chunked_prefill=chunked_prefill,
        admission=admission,
        watermark=watermark,
        prefix_caching=prefix_caching,
        cache_only=cache_only,
        compare=compare,
        device=device,
        strict=strict,
        verify=verify,
    )
    keep_apart(
        {"--trace": trace, "--lengths-from": lengths_from},
        {"--json": json, "--report": report, "--save-trace": save_trace},
    )

    def document(progress: bool) -> dict[str, Any]:
        if cache_only:
            return run_cache_document(options, show_progress=progress)
        setup = prepare(options)
        if save_trace is not None and setup.load.workload is not None:
            write_trace(setup.load.workload, save_trace)
        return run_document(setup, show_progress=progress, history=json is not None or report is not None)

    deliver(document, dashboard, json=json, quiet=quiet, html=report)
