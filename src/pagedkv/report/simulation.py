"""The dashboard of `pagedkv simulate`, from its JSON document alone: a saved run reads like a fresh one."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from pagedkv.report.document import Document
from pagedkv.report.model import Line, Report, Section
from pagedkv.report.modeled_time import time_sections
from pagedkv.report.prefix import cache_dashboard, reuse_section
from pagedkv.report.quantities import count, mib, percent, size
from pagedkv.report.run import banner, skipped_rows
from pagedkv.report.systems import systems_tables

SHOWN_REJECTIONS = 5


def dashboard(document: Document) -> Report:
    """Return the report of a simulation document. Pure."""
    config, figures = document["config"], document["figures"]
    if config.get("cache_only"):
        return cache_dashboard(document)
    return Report(
        title=f"pagedkv simulate {document['versions']['pagedkv']}",
        banner=banner(document),
        sections=(
            Section("Configuration", _configuration(config, document["trace"])),
            Section("Requests", _requests(figures)),
            Section("Pool", _pool(figures, config)),
            Section("Fragmentation", _fragmentation(figures)),
            *time_sections(document.get("time")),
            *_sharing(figures, config),
            *reuse_section(figures, config),
            Section("Paged against max-length reservation, same moment", _contiguous(figures, config)),
            *_verification(document["verification"]),
        ),
        notes=(*document["notes"], *skipped_rows(document["trace"]), *_rejections(document["rejections"], figures)),
        outcome=document["outcome"],
        closing=_closing(document),
        tables=systems_tables(document.get("systems")),
    )


def _configuration(config: dict[str, Any], trace: dict[str, Any] | None) -> tuple[Line, ...]:
    block_bytes = config["block_size"] * config["token_bytes"]
    caps = [
        f"{config[name]} {label}"
        for name, label in (("concurrency", "concurrent"), ("max_seqs", "at most"))
        if config[name]
    ]
    return (
        _workload(config, trace),
        Line("arrival", _arrival(config)),
        *_groups(config),
        Line("concurrency", ", ".join(caps) or "as many as fit"),
        *_batching(config),
        Line("pool", f"{count(config['blocks'])} blocks", f"{size(block_bytes)} a block"),
        Line("block", f"{config['block_size']} tokens", f"{size(config['token_bytes'])} a token"),
        Line("watermark", f"{count(config['watermark'])} blocks"),
        *((Line("prefix caching", "on"),) if config.get("prefix_caching") else ()),
        Line("verification", "every byte" if config["verify"] else "off"),
    )


def _groups(config: dict[str, Any]) -> tuple[Line, ...]:
    """Return what a request is and when it is admitted, where that is not the usual."""
    lines = []
    if config["samples"] > 1:
        lines.append(Line("request", f"{count(config['samples'])} samples", "one prompt, stored once"))
    if config["beam_width"] > 1:
        drawn = f"one survives a step with {config['beam_survival']}, seed {config['seed']}"
        lines.append(Line("request", f"{count(config['beam_width'])} beams", drawn))
    if config["admission"] == "final":
        lines.append(Line("admission", "by final footprint", "nothing is preempted"))
    return tuple(lines)


def _batching(config: dict[str, Any]) -> tuple[Line, ...]:
    """Return how many tokens a step computes, where that is capped."""
    if config.get("max_batched_tokens") is None:
        return ()
    prompts = "prompts in pieces" if config["chunked_prefill"] else "prompts at once"
    return (Line("a step computes", f"{count(config['max_batched_tokens'])} tokens at most", prompts),)


def _workload(config: dict[str, Any], trace: dict[str, Any] | None) -> Line:
    if trace is not None:
        return Line("trace", PurePath(trace["file"]).name, trace["format"])
    if config.get("synthetic"):
        return _synthetic(config["synthetic"])
    form = "closed loop" if config["closed_loop"] else "fixed"
    return Line("base case", form, f"{count(config['completions'])} completions, seed {config['seed']}")


def _synthetic(drawn: dict[str, Any]) -> Line:
    lengths = f"{drawn['prompt_lengths']} in, {drawn['output_lengths']} out"
    if drawn["lengths_from"] is not None:
        lengths = f"lengths of {PurePath(drawn['lengths_from']).name}"
    shared = []
    if drawn["turns"] > 1:
        shared.append(f"{count(drawn['turns'])} turns a session")
    if drawn["system_prompt"]:
        shared.append(f"system prompt of {count(drawn['system_prompt'])} tokens")
    said = ", ".join((lengths, *shared, f"seed {drawn['seed']}"))
    return Line("drawn load", f"{count(drawn['requests'])} requests", said)


def _arrival(config: dict[str, Any]) -> str:
    drawn = config.get("synthetic")
    clock = "by the modeled clock" if config.get("timed") else f"{config['step_ms']} ms a step"
    if drawn and drawn["rate"] is not None:
        return f"{drawn['arrivals']}, {drawn['rate']} a second, {clock}"
    if config.get("timed"):
        return f"timed, {clock}"
    if config["step_ms"] is not None:
        return f"timed, {config['step_ms']} ms a step"
    return "one for every one that ends" if config["closed_loop"] or config.get("arrivals_closed") else "all at step 0"


def _requests(figures: dict[str, Any]) -> tuple[Line, ...]:
    return (
        Line("requests", count(figures["requests"])),
        Line("completed", count(figures["completed"])),
        Line("rejected", count(figures["rejected"]), "can never fit" if figures["rejected"] else ""),
        Line("dropped rows", count(figures["dropped_rows_in_whole_file"]), "no prompt or no output"),
        Line("bad rows", count(figures["bad_rows_in_whole_file"]), "unreadable"),
        Line("steps", count(figures["steps"]), f"{count(figures['saturated_steps'])} with a queue"),
        Line("running", f"{figures['mean_running']:.2f} mean", f"{count(figures['peak_running'])} peak"),
        Line("token allocations", count(figures["total_token_allocs"])),
        Line("block hand-outs", count(figures["total_block_allocs"])),
        Line("block frees", count(figures["total_block_frees"])),
        Line("preemptions", count(figures["preemptions"])),
        Line("recomputed tokens", count(figures["recomputed_tokens"])),
    )


def _pool(figures: dict[str, Any], config: dict[str, Any]) -> tuple[Line, ...]:
    return (
        Line("peak utilization", percent(figures["peak_block_utilization"]), _blocks(figures["peak_blocks"], config)),
        Line("mean utilization", percent(figures["mean_block_utilization"]), f"{figures['mean_blocks']:,.2f} blocks"),
        Line(
            "final utilization", percent(figures["final_block_utilization"]), _blocks(figures["final_blocks"], config)
        ),
        Line("mean in tokens", percent(figures["mean_token_utilization"]), "of all token places"),
    )


def _blocks(blocks: int, config: dict[str, Any]) -> str:
    return f"{count(blocks)} of {count(config['blocks'])} blocks"


def _fragmentation(figures: dict[str, Any]) -> tuple[Line, ...]:
    return (
        Line("internal, mean", percent(figures["mean_internal_fragmentation"]), "every step counts alike"),
        Line("internal, pooled", percent(figures["pooled_internal_fragmentation"]), "every block counts alike"),
        Line("external", percent(figures["external_fragmentation"]), "none: any free block will do"),
    )


def _sharing(figures: dict[str, Any], config: dict[str, Any]) -> tuple[Section, ...]:
    if config["samples"] == config["beam_width"] == 1:
        return ()
    ratio = figures["saturated_sharing_ratio"]
    lines = (
        Line("without sharing", f"{figures['mean_logical_blocks']:,.2f} blocks", _peak(figures["peak_logical_blocks"])),
        Line("with sharing", f"{figures['mean_blocks']:,.2f} blocks", _peak(figures["peak_blocks"])),
        Line("saved", percent(figures["pooled_sharing_saving"]), f"{count(figures['peak_saved_blocks'])} blocks peak"),
        Line(
            "saved with a queue",
            percent(figures["saturated_sharing_saving"]),
            "no step had one" if ratio is None else f"{ratio:.2f} x, every step counts alike",
        ),
        Line("blocks copied", count(figures["cow_copies"]), "at the first write into a shared one"),
    )
    return (Section("Sharing within requests", lines),)


def _peak(blocks: int) -> str:
    return f"mean; {count(blocks)} peak"


def _contiguous(figures: dict[str, Any], config: dict[str, Any]) -> tuple[Line, ...]:
    sequences, factor = figures["contiguous_sequences"], figures["peak_factor_vs_contiguous"]
    why = "concurrency" if config["concurrency"] is not None else "running then"
    if (size := max(config["samples"], config["beam_width"])) > 1:
        why += f" x {count(size)}"
    return (
        Line("paged", mib(figures["peak_bytes"]), f"{count(figures['peak_blocks'])} blocks"),
        Line(
            "contiguous",
            mib(figures["contiguous_max_bytes"]),
            f"{count(sequences)} ({why}) x {count(figures['contiguous_max_seq_len'])} tokens",
        ),
        Line(
            "saved", percent(figures["peak_saving_vs_contiguous"]), "n/a" if factor is None else f"{factor:.2f} x less"
        ),
        Line("saved, mean", percent(figures["mean_saving_vs_contiguous"]), "over all steps"),
    )


def _verification(verification: dict[str, Any] | None) -> tuple[Section, ...]:
    if verification is None:
        return ()
    wrong = verification["wrong_tokens"]
    lines = (
        Line("sequences compared", count(verification["sequences"]), "each at its end"),
        Line("tokens compared", count(verification["tokens"])),
        Line("wrong tokens", count(wrong), f"sequences {verification['wrong_sequences']}" if wrong else ""),
    )
    return (Section("Verification", lines),)


def _rejections(rejections: list[dict[str, Any]], figures: dict[str, Any]) -> list[str]:
    lines = [f"rejected request {one['request']}: {_refusal(one)}" for one in rejections[:SHOWN_REJECTIONS]]
    more = figures["rejected"] - len(lines)
    return [*lines, f"and {count(more)} more rejected requests"] if more else lines


def _refusal(one: dict[str, Any]) -> str:
    needed, total = count(one["needed"]), count(one["total"])
    if one.get("unit") == "tokens a step":
        return f"it may have to store {needed} tokens in one step, which computes {total} at most"
    return f"it needs {needed} blocks, the pool has {total}"


def _closing(document: Document) -> str:
    figures, verification = document["figures"], document["verification"]
    done = f"{count(figures['completed'])} of {count(figures['requests'])} requests completed"
    if document["outcome"] == "FAIL":
        return f"{'; '.join(document['failures'])} ({done})"
    if document["outcome"] == "INTERRUPTED":
        return "; ".join((f"{done} in {count(figures['steps'])} steps, then stopped", *document["failures"]))
    if verification is None:
        return f"{done}; the manager's checks hold"
    return f"{done}; the bytes of {count(verification['tokens'])} tokens are right; the manager's checks hold"
