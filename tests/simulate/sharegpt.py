"""The SOSP'23 artifact's list of ShareGPT lengths, as far as it fits the paper's model."""

from __future__ import annotations

from pathlib import Path

from pagedkv.simulate import Workload, read_trace

FILE = Path("sharegpt-opt-sosp23") / "sharegpt_opt_text_completion_length.csv"
MODEL_LENGTH = 2048


def read_sharegpt(traces: Path) -> Workload:
    """All requests that fit the paper's model, prompt + output < 2048, in file order."""
    load = read_trace(traces / FILE, strict=True).workload
    fits = load.prompt_tokens + load.output_tokens < MODEL_LENGTH
    return Workload(load.prompt_tokens[fits], load.output_tokens[fits])
