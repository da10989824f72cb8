"""Figures and step logs against exact values that two independent brute-force programs agree on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pagedkv.layout import OpaqueLayout
from pagedkv.simulate import Load, PoolSpec, Simulation, base_case, read_trace

from .runs import assert_figures, simulate, workload
from .sharegpt import read_sharegpt

MINIS = (
    "one_request",
    "exact_block_prompt",
    "head_of_line",
    "preempt_newest_recompute",
    "self_preempt",
    "timed_idle_gap",
    "max_seqs_2",
    "rejected_too_big",
    "watermark_1",
)
BLOCK_SIZES = ("B1_N65536", "B8_N8192", "B16_N4096", "B32_N2048", "B64_N1024", "B128_N512", "B256_N256")
SETTINGS = ("block_size", "blocks", "max_seqs", "watermark", "step_ticks_100ns", "dropped_rows_in_whole_file")


def test_every_mini_is_run(oracle: dict[str, Any]) -> None:
    assert set(oracle["minis"]) == set(MINIS)


@pytest.mark.parametrize("name", MINIS)
def test_mini(oracle: dict[str, Any], name: str) -> None:
    mini = oracle["minis"][name]
    load = Load(workload(mini["requests"]), step_ticks=mini["step_ticks"], max_seqs=mini["max_seqs"])
    result, log = simulate(mini["blocks"], mini["block_size"], load, watermark=mini["watermark"])
    assert_figures(result.figures, mini["result"])
    assert log == mini["log"]
    assert not result.failures


@pytest.mark.parametrize("concurrency", [8, 100])
@pytest.mark.parametrize("form", ["fixed", "closed"])
def test_base_case(oracle: dict[str, Any], concurrency: int, form: str) -> None:
    load = (
        Load(base_case(100, 42), concurrency=concurrency, max_seq_len=256)
        if form == "fixed"
        else Load(None, concurrency=concurrency, completions=100, seed=42)
    )
    result = Simulation(PoolSpec(OpaqueLayout(512, 16), 32768), load, device="host", verify=True).run()
    assert_figures(result.figures, oracle["base_case"][f"K{concurrency}/{form}/prompt_first"])
    assert not result.failures


@pytest.mark.parametrize("name", [*BLOCK_SIZES, "B16_N4096_max8"])
def test_azure_code_offline(oracle: dict[str, Any], traces: Path, name: str) -> None:
    right = oracle["paged_and_contiguous"][f"paged/azure_code_first2000/{name}"]
    trace = read_trace(traces / "azure-llm-2023" / "AzureLLMInferenceTrace_code.csv", strict=True)
    spec = PoolSpec(OpaqueLayout(512, right["block_size"]), right["blocks"], right["watermark"])
    result = Simulation(spec, Load(trace.workload.first(2000), max_seqs=right["max_seqs"])).run()
    assert_figures(result.figures, right, ignoring=SETTINGS)
    assert trace.dropped_rows == right["dropped_rows_in_whole_file"]
    assert not result.failures


def test_azure_code_timed(oracle: dict[str, Any], traces: Path) -> None:
    right = oracle["paged_and_contiguous"]["paged_timed/azure_code_full_step50ms_4096x16"]
    trace = read_trace(traces / "azure-llm-2023" / "AzureLLMInferenceTrace_code.csv", strict=True)
    load = Load(trace.workload, step_ticks=right["step_ticks_100ns"])
    result = Simulation(PoolSpec(OpaqueLayout(512, 16), 4096), load).run()
    assert_figures(result.figures, right, ignoring=SETTINGS)


def test_azure_conversation_has_the_published_size(traces: Path) -> None:
    trace = read_trace(traces / "azure-llm-2023" / "AzureLLMInferenceTrace_conv.csv", strict=True)
    result = Simulation(PoolSpec(OpaqueLayout(512, 16), 4096), Load(trace.workload, step_ticks=500_000)).run()
    assert len(trace.workload) == 19_366
    assert result.figures["completed"] == 19_366
    assert result.figures["steps"] == 79_283
    assert not result.failures


@pytest.mark.parametrize("name", ["B16_N983", "B16_N983_wm9"])
def test_sharegpt_offline(oracle: dict[str, Any], traces: Path, name: str) -> None:
    right = oracle["paged_and_contiguous"][f"paged/sharegpt_opt_lt2048_first2000/{name}"]
    spec = PoolSpec(OpaqueLayout(512, right["block_size"]), right["blocks"], right["watermark"])
    result = Simulation(spec, Load(read_sharegpt(traces).first(2000))).run()
    assert_figures(result.figures, right, ignoring=SETTINGS)
    assert not result.failures


def test_mooncake_offline(oracle: dict[str, Any], traces: Path) -> None:
    right = oracle["paged_and_contiguous"]["paged/mooncake_conversation_first500/B16_N16384"]
    trace = read_trace(traces / "mooncake-fast25" / "conversation_trace.jsonl.gz", strict=True)
    spec = PoolSpec(OpaqueLayout(512, right["block_size"]), right["blocks"], right["watermark"])
    result = Simulation(spec, Load(trace.workload.first(500))).run()
    assert_figures(result.figures, right, ignoring=SETTINGS)
    assert not result.failures


@pytest.mark.parametrize("watermark", [0, 9])
def test_figure_2_of_the_paper_paged(oracle: dict[str, Any], traces: Path, watermark: int) -> None:
    right = oracle["sosp23_fig2_offline"][f"paged_wm{watermark}"]
    trace = read_trace(traces / "sharegpt-opt-sosp23" / "fig2_requests_rate4_900s_seed0.csv", strict=True)
    result = Simulation(PoolSpec(OpaqueLayout(512, 16), 983, watermark), Load(trace.workload)).run()
    assert_figures(result.figures, right, ignoring=SETTINGS)
    assert not result.failures


def test_figure_2_is_within_a_point_and_a_half_of_what_is_printed(oracle: dict[str, Any]) -> None:
    exact = oracle["sosp23_fig2_offline"]["paged_wm9"]["saturated"]["mean_token_utilization"]
    assert 100 * exact == pytest.approx(oracle["sosp23_fig2_printed"]["vllm"]["token"], abs=1.5)
