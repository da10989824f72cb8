"""The dashboard of `pagedkv plan`, from its JSON document alone."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from pagedkv.report.document import Document
from pagedkv.report.model import Line, Report, Section
from pagedkv.report.modeled_time import time_sections
from pagedkv.report.quantities import count, percent, size
from pagedkv.report.run import skipped_rows


def plan_dashboard(document: Document) -> Report:
    """Return the report of a plan's document. Pure."""
    simulation = document["simulation"]
    trace = None if simulation is None else simulation["trace"]
    return Report(
        title=f"pagedkv plan {document['versions']['pagedkv']}",
        banner=_banner(document),
        sections=(
            Section("Memory of one GPU", _memory(document)),
            Section("Keys and values of a token, one GPU", _token(document["kv"])),
            Section("Pool of one GPU", _pool(document["pool"])),
            Section("Sequences that fit at once", _sequences(document["sequences"])),
            *_windows(document["sequences"]),
            *_trace(simulation, document["pool"]),
            *(() if simulation is None else time_sections(simulation.get("time"))),
        ),
        notes=(*document["notes"], *skipped_rows(trace)),
        outcome=document["outcome"],
        closing=_closing(document),
    )


def _banner(document: Document) -> tuple[str, ...]:
    gpu, model, gpus = document["gpu"], document["model"], document["memory"]["gpus"]
    parameters = "" if model["parameters"] is None else f", {count(model['parameters'])} parameters"
    rates = [
        f"{gpu[key] / unit:,.4g} {name}"
        for key, unit, name in (
            ("bandwidth_bytes_per_second", 1e9, "GB/s"),
            ("flops_16bit_per_second", 1e12, "TFLOP/s in 16 bits"),
        )
        if gpu[key] is not None
    ]
    return (
        f"model    {model['name']}{parameters}",
        f"GPU      {gpus} x {', '.join([gpu['name'] or size(gpu['memory_bytes']), *rates])}",
        f"sources  model: {model['source']}",
        *(
            f"         {figure}: {gpu[key]}"
            for figure, key in (
                ("memory", "memory_source"),
                ("bandwidth", "bandwidth_source"),
                ("compute", "compute_source"),
            )
            if gpu[key] is not None
        ),
    )


def _memory(document: Document) -> tuple[Line, ...]:
    memory, model = document["memory"], document["model"]
    how = model["weights_source"]
    if model["weights_dtype"] is not None:
        how = f"{model['weights_dtype']}, parameters {how}"
    share = f"1/{memory['gpus']} of {size(model['weights_bytes'])}; {how}" if memory["gpus"] > 1 else how
    return (
        Line("memory", size(memory["gpu_bytes"]), f"{count(memory['gpu_bytes'])} bytes"),
        Line("used at most", size(memory["usable_bytes"]), f"{memory['utilization']:g} of it"),
        Line("weights", size(memory["weights_bytes"]), share),
        Line("reserve", size(memory["reserve_bytes"]) if memory["reserve_bytes"] else "none"),
        Line("left for the cache", size(memory["kv_bytes"]), f"{count(memory['kv_bytes'])} bytes"),
    )


def _token(kv: dict[str, Any]) -> tuple[Line, ...]:
    form = f"{kv['dtype']}, a scale a token and head" if kv["scales"] else kv["dtype"]
    lines = [
        Line(one["kind"], f"{count(one['token_bytes'])} bytes", _layers(one["layers"], one["window"]))
        for one in kv["kinds"]
    ]
    if kv["v_head_dim"] == 0:
        heads = Line("vector", f"{kv['head_dim']} elements a layer", "whole on every GPU")
    else:
        copies = kv["copies_of_a_head"]
        note = f"{kv['kv_heads']} in all" + (f", each on {copies} GPUs" if copies > 1 else "")
        heads = Line("KV heads", f"{kv['kv_heads_per_gpu']} x {kv['head_dim']}", note)
    return (
        *lines,
        Line("together", f"{count(kv['token_bytes'])} bytes", form),
        heads,
        *_of_all(kv),
    )


def _of_all(kv: dict[str, Any]) -> tuple[Line, ...]:
    total = kv["token_bytes_of_all_gpus"]
    return () if total == kv["token_bytes"] else (Line("on all GPUs", f"{count(total)} bytes"),)


def _layers(layers: int, window: int | None) -> str:
    return f"{layers} layers" + ("" if window is None else f", window of {count(window)} tokens, stored in full")


def _pool(pool: dict[str, Any]) -> tuple[Line, ...]:
    return (
        Line(
            "block", f"{pool['block_size']} tokens", f"{size(pool['block_bytes'])}, {count(pool['block_bytes'])} bytes"
        ),
        Line("blocks", count(pool["blocks"])),
        Line("tokens", count(pool["tokens"]), "of one sequence or of many"),
        Line("bytes", size(pool["bytes"]), f"{count(pool['bytes'])} bytes"),
    )


def _sequences(fits: list[dict[str, Any]]) -> tuple[Line, ...]:
    return tuple(
        Line(
            f"{count(one['length'])} tokens",
            count(one["sequences"]),
            f"{count(one['blocks'])} blocks, {size(one['nbytes'])} each",
        )
        for one in fits
    )


def _windows(fits: list[dict[str, Any]]) -> tuple[Section, ...]:
    if all(one["window_bytes"] is None for one in fits):
        return ()
    lines = tuple(
        Line(f"{count(one['length'])} tokens", count(one["window_sequences"]), f"{size(one['window_bytes'])} each")
        for one in fits
    )
    return (Section("The same in a pool that drops what is out of the window (pagedkv does not)", lines),)


def _trace(simulation: dict[str, Any] | None, pool: dict[str, Any]) -> tuple[Section, ...]:
    if simulation is None:
        return ()
    figures, trace = simulation["figures"], simulation["trace"]
    hits = Line("hit rate, tokens", percent(figures["token_hit_rate"]), f"{count(figures['hit_tokens'])} tokens found")
    lines = (
        Line("trace", PurePath(trace["file"]).name, trace["format"]),
        Line("verdict", verdict(simulation)),
        Line("requests", count(figures["requests"]), f"{count(figures['completed'])} completed"),
        Line("rejected", count(figures["rejected"]), "larger than the pool"),
        Line("preemptions", count(figures["preemptions"]), f"{count(figures['recomputed_tokens'])} tokens again"),
        Line("running", f"{figures['mean_running']:,.2f} mean", f"{count(figures['peak_running'])} peak"),
        Line("steps with a queue", count(figures["saturated_steps"]), f"of {count(figures['steps'])}"),
        Line(
            "peak utilization",
            percent(figures["peak_block_utilization"]),
            f"{count(figures['peak_blocks'])} of {count(pool['blocks'])} blocks",
        ),
        Line("mean utilization", percent(figures["mean_block_utilization"]), f"{figures['mean_blocks']:,.2f} blocks"),
        Line("waste", percent(figures["pooled_internal_fragmentation"]), "of the token places in blocks in use"),
        *((hits,) if simulation["config"]["prefix_caching"] else ()),
    )
    return (Section("The trace in this pool, simulated", lines),)


def verdict(simulation: dict[str, Any]) -> str:
    """Say whether the load fits."""
    figures = simulation["figures"]
    if figures["rejected"]:
        config = simulation["config"]
        or_step = "" if config["max_batched_tokens"] is None or config["chunked_prefill"] else " or a step"
        requests = f"{count(figures['rejected'])} of {count(figures['requests'])} requests"
        return f"does not fit: {requests} exceed the pool{or_step}"
    if figures["preemptions"]:
        return f"fits, with {count(figures['preemptions'])} preemptions"
    return "fits, with a queue" if figures["saturated_steps"] else "fits"


def _closing(document: Document) -> str:
    pool, fits, simulation = document["pool"], document["sequences"], document["simulation"]
    ends = [fits[0], fits[-1]] if len(fits) > 1 else fits
    shown = ", ".join(f"{count(one['sequences'])} of {count(one['length'])} tokens" for one in ends)
    text = f"{count(pool['blocks'])} blocks of {size(pool['block_bytes'])} a GPU; sequences: {shown}"
    if simulation is None:
        return text
    if document["outcome"] == "PASS":
        return f"{text}; the trace {verdict(simulation)}"
    end = "was stopped" if document["outcome"] == "INTERRUPTED" else "; ".join(document["failures"])
    return f"{text}; the trace: {end}"
