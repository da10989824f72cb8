"""Modeled seconds: rates and waiting times, with the model that they come from named beside them."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from pagedkv.report.model import Line, Section
from pagedkv.report.quantities import count

_SPREADS = (
    ("first token, modeled", "time_to_first_token_seconds", "after arrival"),
    ("token after it, modeled", "time_per_output_token_seconds", "a request's mean"),
    ("whole request, modeled", "request_seconds", "from arrival to the last token"),
)


def time_sections(time: dict[str, Any] | None) -> tuple[Section, ...]:
    """Return the section of a document's "time"; none without a model. Pure."""
    if time is None or time["figures"] is None:
        return ()
    figures, model = time["figures"], time["model"]
    lines = (
        Line("model of a step", *_model(model)),
        Line("all of it, modeled", seconds(figures["total_seconds"]), f"{seconds(figures['busy_seconds'])} with work"),
        Line("a step, modeled", seconds(figures["mean_step_seconds"]), "mean"),
        Line("requests, modeled", _rate(figures["requests_per_second"])),
        Line("output tokens, modeled", _rate(figures["output_tokens_per_second"])),
        *(Line(label, *_spread(figures[name], what)) for label, name, what in _SPREADS),
    )
    return (Section("Modeled time, not measured", lines),)


def _model(model: dict[str, Any]) -> tuple[str, str]:
    if model["kind"] == "roofline":
        gpus = f"{count(model['gpus'])} x " if model["gpus"] > 1 else ""
        return "roofline", f"{model['model']} on {gpus}{model['gpu']}: a bound, real steps take longer"
    if model["kind"] == "fit":
        rows = f"{count(model['rows'])} measured steps of {PurePath(model['file']).name}"
        return "linear fit", f"{rows}, {model['mean_relative_error']:.1%} off in the mean".replace("%", " %")
    return "linear", "as given"


def _spread(spread: dict[str, Any] | None, what: str) -> tuple[str, str]:
    if spread is None:
        return "n/a", ""
    tails = ", ".join(f"{name} {seconds(spread[name])}" for name in ("p50", "p90", "p99"))
    return f"{seconds(spread['mean'])} mean", f"{tails}; {what}"


def _rate(value: float | None) -> str:
    return "n/a" if value is None else f"{value:,.2f} a second"


def seconds(value: float | None) -> str:
    """0.0123 -> 12.30 ms, 90 -> 90.00 s, 5000 -> 1 h 23 min 20 s; None -> n/a. Pure."""
    if value is None:
        return "n/a"
    if value < 1:
        return f"{value * 1e3:,.2f} ms"
    if value < 600:
        return f"{value:,.2f} s"
    minutes, rest = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h {minutes} min {rest} s" if hours else f"{minutes} min {rest} s"
