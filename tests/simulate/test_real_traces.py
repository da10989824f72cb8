"""The public traces: what their right values say, and what their formats are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pagedkv.errors import TraceError
from pagedkv.simulate import CacheReplay, read_trace

FACTS = {
    "azure_code": "azure-llm-2023/AzureLLMInferenceTrace_code.csv",
    "azure_conv": "azure-llm-2023/AzureLLMInferenceTrace_conv.csv",
    "mooncake_conversation": "mooncake-fast25/conversation_trace.jsonl.gz",
    "mooncake_synthetic": "mooncake-fast25/synthetic_trace.jsonl",
    "sharegpt_opt": "sharegpt-opt-sosp23/sharegpt_opt_text_completion_length.csv",
}


def test_every_fact_is_compared(oracle: dict[str, Any]) -> None:
    assert set(oracle["trace_facts"]) == set(FACTS)


@pytest.mark.parametrize("name", FACTS)
def test_facts(oracle: dict[str, Any], traces: Path, name: str) -> None:
    right = oracle["trace_facts"][name]
    trace = read_trace(traces / FACTS[name], strict=True)
    load = trace.workload
    prompt, output = load.prompt_tokens, load.output_tokens
    found = {
        "rows": trace.rows,
        "sum_p": int(prompt.sum()),
        "sum_o": int(output.sum()),
        "max_p": int(prompt.max()),
        "max_o": int(output.max()),
        "max_p_plus_o": int((prompt + output).max()),
        "zero_p": 0,  # strict reading refuses them
        "zero_o": 0,
        "last_t_ticks_100ns": 0 if load.arrival_ticks is None else int(load.arrival_ticks[-1]),
    }
    if load.identities is not None:
        found["hash_ids"] = len(load.identities.ids)
        found["unique_hash_ids"] = len(np.unique(load.identities.ids))
    assert found == right


@pytest.mark.parametrize(
    ("file", "form", "rows", "dropped", "timed"),
    [
        ("sharegpt-opt-sosp23/fig2_requests_rate4_900s_seed0.csv", "input-output-csv", 3604, 0, True),
        ("sharegpt-opt-sosp23/fig13a_requests_rate2_3600s_seed0.csv", "input-output-csv", 7280, 0, True),
        (
            "sharegpt-llama2-etalon/sharegpt_8k_filtered_stats_llama2_tokenizer.csv",
            "prefill-decode-csv",
            30_731,
            0,
            False,
        ),
        (
            "arxiv-llama2-vidur/arxiv_summarization_stats_llama2_tokenizer_filtered_v2.csv",
            "prefill-decode-csv",
            28_257,
            0,
            False,
        ),
        ("alpaca-gpt1-neupims/alpaca_stats.tsv", "toks-tsv", 52_002, 28, False),
        ("burstgpt-head30/BurstGPT_1.head30.csv", "burstgpt-csv", 30, 1, True),
    ],
)
def test_formats_and_rows(traces: Path, file: str, form: str, rows: int, dropped: int, timed: bool) -> None:
    trace = read_trace(traces / file)
    assert (trace.format, trace.rows, trace.dropped_rows, trace.bad_rows) == (form, rows, dropped, 0)
    assert (trace.workload.arrival_ticks is not None, len(trace.workload)) == (timed, rows - dropped)
    assert trace.was_sorted


def test_a_folder_of_sessions(traces: Path) -> None:
    folder = traces / "kv-cache-tester"
    trace = read_trace(folder, strict=True)
    load = trace.workload
    assert (trace.format, trace.rows, len(load), trace.was_sorted) == ("kv-cache-tester", 195, 195, True)
    assert load.identities is not None
    assert load.identities.tokens_per_id == 64
    singly = [read_trace(file, strict=True).workload for file in sorted(folder.glob("*.json"))]
    assert sum(map(len, singly)) == 195
    # Local ids: sessions have nothing in common, so together they have as many as apart.
    different = [len(np.unique(one.identities.ids)) for one in singly if one.identities is not None]
    assert len(different) == 16
    assert len(np.unique(load.identities.ids)) == sum(different)


def test_a_session_finds_its_own_prompts_again(traces: Path) -> None:
    load = read_trace(traces / "kv-cache-tester" / "trace_0012.json", strict=True).workload
    figures = CacheReplay(load, 100_000).run().figures
    hits, blocks = figures["full_block_hits"], figures["full_blocks"]
    assert isinstance(hits, int)
    assert isinstance(blocks, int)
    assert blocks == sum(int(tokens) // 64 for tokens in load.prompt_tokens)
    assert figures["block_hits"] == hits  # a rest is never found
    assert 0.8 < hits / blocks < 1


def test_a_list_read_as_another_format_names_the_missing_column(traces: Path) -> None:
    with pytest.raises(TraceError, match="is missing") as caught:
        read_trace(traces / "alpaca-gpt1-neupims" / "alpaca_stats.tsv", format="azure-csv")
    assert caught.value.column == "TIMESTAMP"
