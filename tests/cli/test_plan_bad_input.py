"""Bad input of `pagedkv plan`: what does not fit, is unknown, or makes no sense; exit code 2 and advice."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Run
from .test_bad_input import assert_refused

MODEL = ("plan", "--model", "Llama-3.1-8B")
GOOD = (*MODEL, "--gpu", "H100")


def test_what_does_not_fit_says_what_would(run: Run) -> None:
    assert_refused(run("plan", "--model", "Llama-3.1-70B", "--gpu", "H100"), "131.42 GiB", "--tensor-parallel 2 would")
    assert_refused(run(*GOOD, "--reserve", "80GiB"), "reserve of 80.00 GiB", "larger GPU")
    assert_refused(run(*GOOD, "--weights", "76968728985"), "leave nothing of 71.68 GiB")
    assert_refused(run(*GOOD, "--weights", "76967728985"), "leave 1000000 bytes", "a block has 2097152")
    assert_refused(run(*GOOD, "--block-size", 2**31 - 1), "a block has 281474976579584")
    assert_refused(run(*GOOD, "--tensor-parallel", 3), "8 KV heads cannot be shared by 3 ranks")


def test_unknown_names(run: Run) -> None:
    assert_refused(run(*MODEL, "--gpu", "H999"), "'H999'", "H100-80GB", "MI300X", "--gpu-memory", "--catalog")
    assert_refused(run("plan", "--model", "gpt-9", "--gpu", "H100"), "'gpt-9'", "config.json", "Llama-3.1-8B")
    for name in ("", "missing/config.json", "no\0name", "x" * 5000, "x" * 5000 + ".json", "\0.json"):
        assert_refused(run("plan", "--model", name, "--gpu", "H100"))
    assert_refused(run(*GOOD, "--kv-dtype", "fp4"), "'fp4'", "float8_e4m3fn")
    assert_refused(run(*GOOD, "--weight-dtype", "int4"), "'int4'")


def test_one_memory_and_one_size_of_weights(run: Run) -> None:
    assert_refused(run(*MODEL), "--gpu NAME or --gpu-memory SIZE")
    assert_refused(run(*GOOD, "--gpu-memory", "80GiB"), "--gpu NAME or --gpu-memory SIZE")
    assert_refused(run(*GOOD, "--weights", "1GiB", "--weight-dtype", "fp8"), "--weight-dtype")
    assert run("plan", "--gpu", "H100").code == 2


def test_weights_that_nobody_can_tell(run: Run) -> None:
    assert_refused(run("plan", "--model", "DeepSeek-V3", "--gpu", "H200"), "quantized (fp8)", "--weights SIZE")


@pytest.mark.parametrize("size", ["0", "-1", "80GB", "1.5GiB", "nan", "", "GiB", "9" * 25, "1e9", "80 Gi B"])
def test_sizes(run: Run, size: str) -> None:
    assert_refused(run(*MODEL, "--gpu-memory", size), "size")
    assert_refused(run(*GOOD, "--weights", size), "size")
    if size != "0":
        assert_refused(run(*GOOD, "--reserve", size), "size")


@pytest.mark.parametrize("share", ["0", "0.0", "1.01", "-0.9", "90%", "nan", "inf", "", "1e-1", ".9", "0,9", "9" * 30])
def test_utilizations(run: Run, share: str) -> None:
    assert_refused(run(*GOOD, "--utilization", share), "--utilization")


@pytest.mark.parametrize(
    "lengths", ["", "0", "-1", "1k,", ",", "1k;2k", "1.5k", "1m", "k", "nan", "2147483648", "9" * 11, "9999999999k"]
)
def test_lengths(run: Run, lengths: str) -> None:
    assert_refused(run(*GOOD, "--lengths", lengths), "--lengths")


@pytest.mark.parametrize("option", ["--tensor-parallel", "--block-size"])
@pytest.mark.parametrize("value", ["0", "-1", "2.5", "16.0", "nan", "1e3", "", "x", "9" * 30])
def test_whole_numbers(run: Run, option: str, value: str) -> None:
    assert_refused(run(*GOOD, option, value), option)


def test_scales_are_of_8_bit_formats(run: Run) -> None:
    assert_refused(run(*GOOD, "--kv-scales"), "scales")


@pytest.mark.parametrize(
    "option", [("--limit", 5), ("--step-ms", 50), ("--max-seqs", 5), ("--prefix-caching",), ("--strict",)]
)
def test_options_about_a_trace_that_is_not_there(run: Run, option: tuple[object, ...]) -> None:
    assert_refused(run(*GOOD, *option), str(option[0]), "--trace")


def test_traces(run: Run, trace: Path, tmp_path: Path) -> None:
    assert_refused(run(*GOOD, "--trace", tmp_path / "none.csv"), "none.csv", "cannot be read")
    assert_refused(run(*GOOD, "--trace", trace, "--limit", 0), "--limit")
    assert_refused(run(*GOOD, "--trace", trace, "--step-ms", "0"), "--step-ms")
    before = trace.read_bytes()
    assert_refused(run(*GOOD, "--trace", trace, "--json", trace), "is the trace itself")
    assert trace.read_bytes() == before
    # A name that no file can have is no file, not a fault of the output.
    assert_refused(run(*GOOD, "--trace", trace, "--json", "x" * 5000), "cannot be written")
    assert_refused(run("simulate", "--trace", "x" * 5000, "--json", trace), "cannot be read")


def test_catalogs_and_configs(run: Run, tmp_path: Path) -> None:
    assert_refused(run(*GOOD, "--catalog", tmp_path / "none.toml"), "none.toml", "cannot be read")
    bad = tmp_path / "bad.toml"
    bad.write_text("[[gpu]]", encoding="utf-8")
    assert_refused(run(*GOOD, "--catalog", bad), "bad.toml", "gpu 1: name is missing")
    config = tmp_path / "config.json"
    config.write_text('{"model_type": "mamba2"}', encoding="utf-8")
    assert_refused(run("plan", "--model", config, "--gpu", "H100"), "'mamba2' is not known")
    config.write_text("[]", encoding="utf-8")
    assert_refused(run("plan", "--model", config, "--gpu", "H100"), "holds a list")
    good = '{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 8, "max_position_embeddings": 0}'
    config.write_text(good, encoding="utf-8")
    assert_refused(run("plan", "--model", config, "--gpu", "H100", "--weights", "1B"), "max_position_embeddings")


def test_a_refused_plan_leaves_no_file(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    assert_refused(run(*GOOD, "--tensor-parallel", 3, "--json", file), "ranks")
    assert not file.exists()
