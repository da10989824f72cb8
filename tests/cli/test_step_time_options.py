"""--step-time, --max-batched-tokens and --chunked-prefill of `pagedkv simulate` and `pagedkv plan`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .conftest import Run
from .test_bad_input import assert_refused

SECOND_A_STEP = "linear:1000000:0:0:0"


def document(run: Run, *arguments: object) -> dict[str, Any]:
    done = run(*arguments, "--json", "-")
    assert done.code == 0, done.err
    found: dict[str, Any] = done.document
    return found


def test_the_times_of_a_trace_by_the_modeled_clock(run: Run, trace: Path) -> None:
    # 38 requests 100 ms apart, a step of 100 ms: as with --step-ms 100, but in seconds.
    by_steps = document(run, "simulate", "--trace", trace, "--step-ms", 100)
    by_clock = document(run, "simulate", "--trace", trace, "--step-time", "linear:100000:0:0:0")
    assert by_clock["config"]["timed"]
    assert by_steps["time"] is None
    for name in ("steps", "completed", "total_token_allocs", "peak_blocks", "sum_running_over_steps"):
        assert by_clock["figures"][name] == pytest.approx(by_steps["figures"][name], rel=0.05), name
    figures = by_clock["time"]["figures"]
    assert figures["time_to_first_token_seconds"]["count"] == 38
    assert 0.1 <= figures["time_to_first_token_seconds"]["mean"] <= 0.2
    assert figures["time_per_output_token_seconds"]["mean"] == pytest.approx(0.1)


def test_offline_leaves_the_times_out(run: Run, trace: Path) -> None:
    found = document(run, "simulate", "--trace", trace, "--step-time", SECOND_A_STEP, "--arrivals", "offline")
    assert not found["config"]["timed"]
    assert found["time"]["figures"]["total_seconds"] == found["figures"]["steps"]
    assert found["time"]["figures"]["time_to_first_token_seconds"]["max"] == 1  # the pool takes all of them at once


def test_the_base_case_and_drawn_loads_have_seconds(run: Run) -> None:
    base = document(run, "simulate", "--step-time", SECOND_A_STEP, "--no-verify")
    assert base["time"]["figures"]["total_seconds"] == base["figures"]["steps"]
    drawn = document(
        run, "simulate", "--requests", 50, "--arrivals", "poisson", "--rate", 10, "--step-time", "linear:50000:10:0:0"
    )
    assert drawn["config"]["timed"]
    assert drawn["time"]["model"] == {
        "kind": "linear",
        "step_seconds": 0.05,
        "prefill_token_seconds": 1e-5,
        "decode_sequence_seconds": 0.0,
        "context_token_seconds": 0.0,
    }


def test_a_roofline_brings_the_models_bytes(run: Run, trace: Path) -> None:
    found = document(run, "simulate", "--trace", trace, "--blocks", 500, "--step-time", "roofline:Llama-3.1-8B:H100")
    assert found["config"]["token_bytes"] == 131_072
    model = found["time"]["model"]
    assert (model["kind"], model["model"], model["gpu"], model["gpus"]) == ("roofline", "Llama-3.1-8B", "H100-80GB", 1)
    # 8,030,261,248 parameters without the 128,256 x 4,096 of input embeddings, 2 bytes and 2 operations each; as many
    # of the output layer.
    assert model["weight_bytes"] == 2 * (8_030_261_248 - 128_256 * 4096)
    assert model["output_operations"] == 2 * 128_256 * 4096
    assert model["token_operations"] + model["output_operations"] == model["weight_bytes"]
    assert model["pair_operations"] == 2 * 32 * 32 * 256
    assert any("seconds come from a model" in note for note in found["notes"])
    two = document(
        run, "simulate", "--trace", trace, "--blocks", 500, "--step-time", "roofline:Llama-3.1-8B:H100:2",
        "--token-bytes", 1000,
    )  # fmt: skip
    assert two["config"]["token_bytes"] == 1000
    assert two["time"]["model"]["kv_token_bytes"] == 65_536
    assert two["time"]["model"]["weight_bytes"] * 2 == model["weight_bytes"]


def test_measured_steps_from_a_file(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "steps.csv"
    rows = [f"{p},{s},{c},{0.01 + 1e-5 * p + 1e-4 * s}" for p in (0, 100, 300) for s in (0, 4) for c in (0, 900)]
    file.write_text("\n".join(["prefill_tokens,decode_sequences,context_tokens,seconds", *rows]), encoding="utf-8")
    found = document(run, "simulate", "--no-verify", "--step-time", f"fit:{file}")
    model = found["time"]["model"]
    assert (model["kind"], model["rows"]) == ("fit", 12)
    assert model["prefill_token_seconds"] == pytest.approx(1e-5)
    assert model["steps_beyond_measured"] > 0  # the base case runs eight sequences
    shown = run("simulate", "--no-verify", "--step-time", f"fit:{file}")
    assert "Modeled time, not measured" in shown.out
    assert "12 measured steps of steps.csv" in shown.out


def test_compared_systems_have_seconds_of_the_same_model(run: Run, trace: Path) -> None:
    found = document(run, "simulate", "--trace", trace, "--blocks", 80, "--compare", "--step-time", SECOND_A_STEP)
    paged, *others = found["systems"]
    assert paged["figures"]["seconds"] == found["time"]["figures"]
    assert all(one["figures"]["seconds"]["total_seconds"] >= one["figures"]["steps"] for one in others)
    shown = run("simulate", "--trace", trace, "--blocks", 80, "--compare", "--step-time", SECOND_A_STEP).out
    rate = f"{paged['figures']['seconds']['output_tokens_per_second']:,.1f}"
    (line,) = (line for line in shown.splitlines() if line.startswith("  paged "))
    assert line.split()[-3] == rate


def test_a_cap_on_tokens_and_prompts_in_pieces(run: Run, trace: Path) -> None:
    capped = document(run, "simulate", "--trace", trace, "--max-batched-tokens", 100)
    assert capped["config"]["max_batched_tokens"] == 100
    assert capped["figures"]["rejected"] > 0
    assert capped["rejections"][0]["unit"] == "tokens a step"
    shown = run("simulate", "--trace", trace, "--max-batched-tokens", 100)
    assert "it may have to store" in shown.out
    chunked = document(run, "simulate", "--trace", trace, "--max-batched-tokens", 100, "--chunked-prefill", "--verify")
    assert chunked["figures"]["completed"] == 38
    assert chunked["verification"]["wrong_tokens"] == 0
    assert chunked["figures"]["steps"] > document(run, "simulate", "--trace", trace)["figures"]["steps"]


def test_prompts_in_pieces_with_prefix_caching_hold_the_right_bytes(run: Run) -> None:
    found = document(
        run, "simulate", "--requests", 60, "--prompt-lengths", "uniform:5:90", "--system-prompt", 40, "--blocks", 40,
        "--output-lengths", "uniform:1:60", "--prefix-caching", "--max-batched-tokens", 32, "--chunked-prefill",
        "--verify",
    )  # fmt: skip
    assert found["figures"]["completed"] == 60
    assert found["figures"]["hit_tokens"] > 0
    assert found["figures"]["preemptions"] > 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--step-time", "fast"), "--step-time is 'fast'"),
        (("--step-time", "linear:1:2:3"), "four numbers of microseconds"),
        (("--step-time", "linear:1:2:3:-4"), "four numbers of microseconds"),
        (("--step-time", "linear:0:0:0:0"), "no time at all"),
        (("--step-time", "fit:none.csv"), "none.csv cannot be read"),
        (("--step-time", "fit:"), "--step-time is 'fit:'"),
        (("--step-time", "roofline:Llama-3.1-8B"), "roofline:MODEL:GPU"),
        (("--step-time", "roofline:Llama-3.1-8B:H100:x"), "roofline:MODEL:GPU"),
        (("--step-time", "roofline:Llama-3.1-8B:H100:0"), "GPUs of the roofline"),
        (("--step-time", "roofline:Llama-9:H100"), "is unknown"),
        (("--step-time", "roofline:Llama-3.1-8B:H99"), "is unknown"),
        (("--step-time", "roofline:gpt-oss-20b:H100"), "`pagedkv plan --trace` takes it"),
        (("--chunked-prefill",), "give --max-batched-tokens"),
        (("--max-batched-tokens", 0), "--max-batched-tokens"),
        (("--max-batched-tokens", 9, "--chunked-prefill", "--samples", 2), "--chunked-prefill is about single"),
        (("--max-batched-tokens", 3, "--samples", 4), "give 4 or more"),
        (("--max-batched-tokens", 3, "--compare"), "--compare is about systems that store a prompt at once"),
    ],
)
def test_what_makes_no_sense_is_refused(run: Run, options: tuple[object, ...], said: str) -> None:
    assert_refused(run("simulate", *options), said)


def test_two_lengths_of_a_step_are_refused(run: Run, trace: Path) -> None:
    both = ("--step-ms", 50, "--step-time", SECOND_A_STEP)
    assert_refused(run("simulate", "--trace", trace, *both), "give one of them")
    assert_refused(run("simulate", "--cache-only", "--prefix-caching", "--trace", trace, *both[2:]), "--step-time")


def test_a_plan_with_times(run: Run, trace: Path) -> None:
    plan = ("plan", "--model", "Llama-3.1-8B", "--gpu", "H100", "--tensor-parallel", 2)
    found = document(
        run, *plan, "--trace", trace, "--step-time", "roofline", "--max-batched-tokens", 64, "--chunked-prefill"
    )
    simulation = found["simulation"]
    assert simulation["time"]["model"]["gpus"] == 2
    assert simulation["time"]["model"]["token_bytes"] == found["kv"]["token_bytes"] == 65_536
    assert simulation["config"]["chunked_prefill"]
    shown = run(*plan, "--trace", trace, "--step-time", "roofline")
    assert "Llama-3.1-8B on 2 x H100-80GB: a bound, real steps take longer" in shown.out
    assert_refused(run(*plan, "--step-time", "roofline"), "--step-time is about a trace")
    memory = ("plan", "--model", "Llama-3.1-8B", "--gpu-memory", "80GiB")
    assert_refused(run(*memory, "--trace", trace, "--step-time", "roofline"), "its bandwidth and compute")


def test_a_quantized_model_by_its_weights(run: Run, trace: Path) -> None:
    found = document(
        run, "plan", "--model", "gpt-oss-20b", "--gpu", "H100", "--weights", "13GiB", "--trace", trace,
        "--step-time", "roofline",
    )  # fmt: skip
    model = found["simulation"]["time"]["model"]
    assert model["expert_share"] == 4 / 32
    assert 0 < model["expert_bytes"] < 13 * 2**30
    assert model["weight_bytes"] + model["expert_bytes"] < 13 * 2**30  # the input embeddings are not read
