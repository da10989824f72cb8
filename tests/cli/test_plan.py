"""`pagedkv plan`: its document, its dashboard, and the simulation of a trace in the pool that it found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pagedkv.simulate import Simulation, SimulationResult

from .conftest import Finished, Run

LLAMA = {
    "model_type": "llama", "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
    "hidden_size": 4096, "intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 8192,
    "torch_dtype": "bfloat16",
}  # fmt: skip


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Llama 3 8B in a folder of its own."""
    folder = tmp_path / "Llama-3-8B"
    folder.mkdir()
    file = folder / "config.json"
    file.write_text(json.dumps(LLAMA), encoding="utf-8")
    return file


def documented(done: Finished) -> dict[str, Any]:
    assert (done.code, done.err) == (0, "")
    return done.document


def test_the_document_by_hand(run: Run) -> None:
    document = documented(run("plan", "--model", "Llama-3.1-8B", "--gpu", "H100", "--json", "-"))
    assert (document["schema"], document["command"], document["outcome"]) == (1, "plan", "PASS")
    assert document["gpu"]["name"] == "H100-80GB"
    assert document["gpu"]["bandwidth_bytes_per_second"] == 3.35e12
    assert document["gpu"]["flops_16bit_per_second"] == 9.89e14
    assert document["model"]["parameters"] == 8_030_261_248
    assert document["model"]["weights_bytes"] == 16_060_522_496
    assert document["memory"] == {
        "gpus": 1,
        "gpu_bytes": 85_520_809_984,
        "utilization": 0.9,
        "usable_bytes": 76_968_728_985,
        "weights_bytes": 16_060_522_496,
        "reserve_bytes": 0,
        "kv_bytes": 60_908_206_489,
        "kept_out_bytes": 8_552_080_999,
    }
    assert document["kv"]["token_bytes"] == document["kv"]["token_bytes_of_all_gpus"] == 131_072
    assert document["kv"]["kinds"] == [{"kind": "full attention", "layers": 32, "token_bytes": 131_072, "window": None}]
    assert document["pool"] == {
        "block_size": 16,
        "block_bytes": 2_097_152,
        "blocks": 29_043,
        "bytes": 60_907_585_536,
        "tokens": 464_688,
    }
    assert [(one["length"], one["sequences"]) for one in document["sequences"]] == [
        (1024, 453), (2048, 226), (4096, 113), (8192, 56), (16384, 28), (32768, 14), (65536, 7), (131072, 3),
    ]  # fmt: skip
    assert (document["simulation"], document["failures"]) == (None, [])
    assert any("--reserve" in note for note in document["notes"])


@pytest.mark.parametrize("path", ["config.json", "."])
def test_a_config_and_its_folder(run: Run, config: Path, path: str) -> None:
    given = config.parent / path
    options = ("--gpu-memory", "24GiB", "--reserve", "2GiB", "--utilization", "0.95", "--block-size", 32)
    document = documented(run("plan", "--model", given, *options, "--json", "-"))
    assert document["model"]["source"] == str(given)
    assert document["model"]["name"] == "Llama-3-8B"
    assert document["gpu"]["name"] is None
    left = 24 * 2**30 * 95 // 100 - 16_060_522_496 - 2 * 2**30
    assert document["memory"]["kv_bytes"] == left
    assert document["pool"]["blocks"] == left // (32 * 131_072)
    # The model ends at 8,192 tokens, and so does the table.
    assert [one["length"] for one in document["sequences"]] == [1024, 2048, 4096, 8192]
    assert not any("--reserve" in note for note in document["notes"])


def test_given_weights_formats_and_ranks(run: Run, config: Path) -> None:
    options = ("--model", config, "--gpu", "L4", "--json", "-", "--kv-dtype", "fp8", "--kv-scales")
    document = documented(run("plan", *options, "--weights", "5GiB", "--tensor-parallel", 16, "--lengths", "100,1k"))
    assert document["model"]["weights_source"] == "given"
    assert document["memory"]["weights_bytes"] == 5 * 2**30 // 16
    kv = document["kv"]
    assert (kv["kv_heads"], kv["kv_heads_per_gpu"], kv["copies_of_a_head"]) == (8, 1, 2)
    assert kv["token_bytes"] == 2 * 32 * (128 + 4)
    assert kv["token_bytes_of_all_gpus"] == 16 * kv["token_bytes"]
    assert [one["blocks"] for one in document["sequences"]] == [7, 64]
    half = documented(run("plan", *options, "--weight-dtype", "int8"))
    assert half["memory"]["weights_bytes"] == 8_030_261_248


def test_lengths_beyond_the_model_are_answered_with_a_note(run: Run, config: Path) -> None:
    done = run("plan", "--model", config, "--gpu", "L4", "--lengths", "16k")
    assert "note: the model is made for 8,192 tokens at most" in done.out
    assert "16,384 tokens:" in done.out


def test_a_short_model_has_one_length(run: Run, config: Path) -> None:
    config.write_text(json.dumps({**LLAMA, "max_position_embeddings": 512}), encoding="utf-8")
    document = documented(run("plan", "--model", config, "--gpu", "L4", "--json", "-"))
    assert [one["length"] for one in document["sequences"]] == [512]


def test_the_dashboard_and_its_closing_line(run: Run) -> None:
    options = ("plan", "--model", "gemma-3-27b", "--gpu", "H200", "--tensor-parallel", 2)
    lines = [line.strip() for line in run(*options).out.splitlines()]
    assert "full attention:          40,960 bytes  (10 layers)" in lines
    assert "sliding window:          212,992 bytes  (52 layers, window of 1,024 tokens, stored in full)" in lines
    assert "KV heads:                8 x 128  (16 in all)" in lines
    assert "on all GPUs:             507,904 bytes" in lines
    assert any(line.startswith("The same in a pool that drops what is out of the window") for line in lines)
    assert "note: 52 layers have a sliding window; pagedkv stores them as full attention" in lines
    assert run(*options, "--quiet").out.splitlines() == [lines[-1]]
    assert lines[-1].startswith("PASS: ")
    plain = run("plan", "--model", "Llama-3.1-8B", "--gpu", "H200").out
    assert "drops what is out of the window" not in plain
    assert "simulated" not in plain


def test_latent_vectors_and_repeated_heads_are_said(run: Run) -> None:
    deepseek = run("plan", "--model", "DeepSeek-V3", "--gpu", "H200", "--weights", "641GiB", "--tensor-parallel", 8)
    assert "  latent:                  70,272 bytes  (61 layers)" in deepseek.out
    assert "  vector:                  576 elements a layer  (whole on every GPU)" in deepseek.out
    llama = run("plan", "--model", "Llama-3.1-70B", "--gpu", "H100", "--tensor-parallel", 16)
    assert "  KV heads:                1 x 128  (8 in all, each on 2 GPUs)" in llama.out


def test_json_in_a_file_is_what_is_shown(run: Run, tmp_path: Path) -> None:
    from pagedkv.report.plain import plain_lines
    from pagedkv.report.plan import plan_dashboard

    file = tmp_path / "plan.json"
    done = run("plan", "--model", "Qwen3-8B", "--gpu", "A100", "--json", file)
    saved = json.loads(file.read_text(encoding="utf-8"))
    assert done.out == "\n".join(plain_lines(plan_dashboard(saved))) + "\n"


def test_a_catalog_of_ones_own(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "lab.toml"
    file.write_text('[[gpu]]\nname = "Lab"\nmemory = "20GiB"\n', encoding="utf-8")
    done = run("plan", "--catalog", file, "--model", "Llama-3.1-8B", "--gpu", "lab", "--json", "-")
    assert documented(done)["gpu"]["memory_source"] == "lab.toml"
    assert documented(done)["config"]["catalog"] == [str(file)]


def test_a_trace_is_simulated_as_simulate_does(run: Run, trace: Path) -> None:
    pool = ("--gpu-memory", "16300MiB", "--utilization", "1")
    done = run("plan", "--model", "Llama-3.1-8B", *pool, "--trace", trace, "--json", "-")
    document = documented(done)
    blocks = document["pool"]["blocks"]
    assert blocks == (16_300 * 2**20 - 16_060_522_496) // 2**21 == 491
    by_simulate = run(
        "simulate", "--trace", trace, "--blocks", blocks, "--token-bytes", 131_072, "--device", "null", "--json", "-"
    ).document
    assert document["simulation"]["figures"] == by_simulate["figures"]
    assert document["simulation"]["config"] == by_simulate["config"]
    assert document["simulation"]["trace"] == by_simulate["trace"]


VERDICTS = {
    "16300MiB": "fits",  # 491 blocks for 38 requests of 2 to 18 blocks
    "15800MiB": "fits, with a queue",
    "15500MiB": "fits, with 2 preemptions",
    "15350MiB": "does not fit: 5 of 38 requests exceed the pool",  # 16 blocks; from request 33 on, 17 and more
}


@pytest.mark.parametrize("memory", VERDICTS)
def test_the_verdict_on_a_trace(run: Run, trace: Path, memory: str) -> None:
    options = ("plan", "--model", "Llama-3.1-8B", "--gpu-memory", memory, "--utilization", "1", "--trace", trace)
    document = documented(run(*options, "--json", "-"))
    figures = document["simulation"]["figures"]
    lines = run(*options).out.splitlines()
    shown = next(line for line in lines if line.startswith("  verdict:")).split(maxsplit=1)[1]
    assert f"; the trace {shown}" in lines[-1]
    assert shown == VERDICTS[memory]
    assert (shown == "fits") == (figures["saturated_steps"] == figures["preemptions"] == figures["rejected"] == 0)
    assert (shown == "fits, with a queue") == (
        figures["saturated_steps"] > 0 == figures["preemptions"] == figures["rejected"]
    )
    assert shown.startswith("does not fit") == (figures["rejected"] > 0)
    assert any("note: skipped row" in line for line in lines)


def test_as_many_run_at_once_as_fit_by_arithmetic(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "alike.csv"
    rows = ["2023-11-16 18:17:03,1024,1"] * 500
    file.write_text("\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *rows]), encoding="utf-8")
    options = ("--gpu", "H100", "--trace", file, "--lengths", "1k", "--json", "-")
    document = documented(run("plan", "--model", "Llama-3.1-8B", *options))
    assert document["sequences"][0]["sequences"] == 453
    assert document["simulation"]["figures"]["peak_running"] == 453
    assert document["simulation"]["figures"]["peak_bytes"] == 453 * 1024 * 131_072


def test_an_interrupted_trace(run: Run, trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stopped(Simulation):
        def run(self) -> SimulationResult:
            self.stop()
            return super().run()

    monkeypatch.setattr("pagedkv.cli.simulation_run.Simulation", Stopped)
    done = run("plan", "--model", "Llama-3.1-8B", "--gpu", "H100", "--trace", trace)
    assert done.code == 130
    assert done.out.splitlines()[-1].startswith("INTERRUPTED: 29,043 blocks")
    assert done.out.endswith("; the trace: was stopped\n")


def test_options_of_the_trace(run: Run, trace: Path) -> None:
    options = ("plan", "--model", "Llama-3.1-8B", "--gpu", "H100", "--trace", trace, "--json", "-")
    timed = documented(run(*options, "--step-ms", 50, "--limit", 10, "--max-seqs", 3))
    assert timed["simulation"]["figures"]["requests"] == 10
    assert timed["simulation"]["figures"]["peak_running"] <= 3
    assert not any("--step-ms" in note for note in timed["notes"])
    assert any("--step-ms" in note for note in documented(run(*options))["notes"])
    assert run(*options, "--strict").code == 2


def test_prefix_caching_where_the_trace_has_ids(run: Run, tmp_path: Path, trace: Path) -> None:
    file = tmp_path / "chat.jsonl"
    rows = [
        {"timestamp": 1000 * i, "input_length": 1100, "output_length": 5, "hash_ids": [0, 1, 2 + i]} for i in range(4)
    ]
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    options = ("plan", "--model", "Llama-3.1-8B", "--gpu", "H100", "--prefix-caching")
    document = documented(run(*options, "--trace", file, "--json", "-"))
    assert document["simulation"]["figures"]["hit_tokens"] == 3 * 1024
    assert "  hit rate, tokens:        69.82 %  (3,072 tokens found)" in run(*options, "--trace", file).out
    blind = run(*options, "--trace", trace).out
    assert "note: the trace does not say what its prompts hold" in blind


def test_a_trace_of_which_nothing_fits_fails(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "long.csv"
    file.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03,9000000,10\n", encoding="utf-8")
    done = run("plan", "--model", "Llama-3.1-8B", "--gpu", "H100", "--trace", file, "--quiet")
    assert done.code == 1
    assert done.out.startswith("FAIL: ")
    assert "no request completed" in done.out
