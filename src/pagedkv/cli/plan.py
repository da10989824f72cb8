"""`pagedkv plan`: what fits on a GPU beside a model's weights, by arithmetic and, with a trace, by simulation."""

from __future__ import annotations

from typing import Annotated

from pagedkv.cli.files import keep_apart
from pagedkv.cli.options import flag_option, text_option, whole_option
from pagedkv.cli.output import deliver


def plan(
    model: Annotated[str, text_option("PATH|NAME", "A config.json, its folder, or a model that is known by name.")],
    gpu: Annotated[str | None, text_option("NAME", "A GPU that is known by name, such as H100.")] = None,
    gpu_memory: Annotated[
        str | None, text_option("SIZE", "Memory of one GPU, such as 80GiB, instead of --gpu.")
    ] = None,
    weights: Annotated[
        str | None,
        text_option("SIZE", "The whole model's weights.  [default: parameters x bytes, where they are known]"),
    ] = None,
    weight_dtype: Annotated[str | None, text_option("NAME", "The weights' format.  [default: the config's]")] = None,
    tensor_parallel: Annotated[int, whole_option("N", "GPUs that share the model.")] = 1,
    utilization: Annotated[str, text_option("SHARE", "Share of a GPU's memory that is used.")] = "0.9",
    reserve: Annotated[str, text_option("SIZE", "Kept free on each GPU: activations, graphs, the framework.")] = "0",
    block_size: Annotated[int, whole_option("TOKENS", "Tokens a block.")] = 16,
    kv_dtype: Annotated[
        str | None, text_option("NAME", "The cache's format, such as fp8.  [default: the config's]")
    ] = None,
    kv_scales: Annotated[bool, flag_option("--kv-scales", "8-bit caches: a float32 scale a token and head.")] = False,
    lengths: Annotated[
        str | None,
        text_option("LIST", "Lengths in tokens, as 1k,2k,5000.  [default: 1k to 128k or the model's longest]"),
    ] = None,
    catalog: Annotated[
        list[str] | None, text_option("FILE", "More GPUs and models, in TOML or JSON; may be given several times.")
    ] = None,
    trace: Annotated[str | None, text_option("FILE", "Simulate this trace in the pool that was found.")] = None,
    limit: Annotated[int | None, whole_option("N", "Trace: only its first N requests.")] = None,
    step_ms: Annotated[
        str | None, text_option("MS", "Trace: replay its times, a step in MS milliseconds.  [default: all at step 0]")
    ] = None,
    step_time: Annotated[
        str | None,
        text_option("MODEL", "Trace: replay its times; roofline is of this model and GPU; or linear:..., fit:FILE."),
    ] = None,
    max_seqs: Annotated[int | None, whole_option("N", "Trace: most requests that run at once.")] = None,
    max_batched_tokens: Annotated[
        int | None, whole_option("TOKENS", "Trace: most tokens that a step computes.")
    ] = None,
    chunked_prefill: Annotated[bool, flag_option("--chunked-prefill", "Trace: store a prompt piece by piece.")] = False,
    prefix_caching: Annotated[
        bool, flag_option("--prefix-caching", "Trace: look prompts up in what was stored.")
    ] = False,
    strict: Annotated[bool, flag_option("--strict", "Trace: the first bad row is an error.")] = False,
    json: Annotated[
        str | None, text_option("FILE", "Write the plan as JSON; - is standard output, in the dashboard's place.")
    ] = None,
    report: Annotated[
        str | None, text_option("FILE", "Write an HTML page of the plan; needs the extra `report`.")
    ] = None,
    quiet: Annotated[bool, flag_option("--quiet", "Print the closing line only.")] = False,
) -> None:
    """Plan capacity: KV bytes a token, the pool beside the weights, the sequences that fit; with a trace, simulated.

    Exit code: 0 PASS, 1 FAIL or nothing completed, 2 bad input or nothing fits, 130 interrupted.
    """
    # Imported here: `pagedkv --version` and `doctor` must work where a part of the package does not.
    from pagedkv.cli.plan_run import run_plan
    from pagedkv.cli.plan_setup import PlanOptions, prepare_plan
    from pagedkv.report.plan import plan_dashboard

    options = PlanOptions(
        model=model,
        gpu=gpu,
        gpu_memory=gpu_memory,
        weights=weights,
        weight_dtype=weight_dtype,
        tensor_parallel=tensor_parallel,
        utilization=utilization,
        reserve=reserve,
        block_size=block_size,
        kv_dtype=kv_dtype,
        kv_scales=kv_scales,
        lengths=lengths,
        catalog=tuple(catalog or ()),
        trace=trace,
        limit=limit,
        step_ms=step_ms,
        step_time=step_time,
        max_seqs=max_seqs,
        max_batched_tokens=max_batched_tokens,
        chunked_prefill=chunked_prefill,
        prefix_caching=prefix_caching,
        strict=strict,
    )
    keep_apart({"--trace": trace}, {"--json": json, "--report": report})
    recorded = json is not None or report is not None
    deliver(
        lambda progress: run_plan(prepare_plan(options), show_progress=progress, history=recorded),
        plan_dashboard,
        json=json,
        quiet=quiet,
        html=report,
    )
