"""The built-in table is whole and sourced; a user's file adds to it, corrects it, or is refused with its place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pagedkv.errors import InvalidArgumentError
from pagedkv.model_config import read_shape
from pagedkv.plan import Demand, make_plan, read_catalog, weights_of

GPU = '[[gpu]]\nname = "Mine"\nmemory = "48GiB"\n'
MODEL = (
    '[[model]]\nname = "own/Small"\nparameters = 1000\n[model.config]\nmodel_type = "llama"\nnum_hidden_layers = 2\n'
    "num_attention_heads = 2\nhidden_size = 16\n"
)


def write(folder: Path, text: str, name: str = "mine.toml") -> Path:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


def test_every_figure_of_ours_has_its_source() -> None:
    catalog = read_catalog()
    assert len({gpu.name for gpu in catalog.gpus.values()}) >= 12
    for gpu in catalog.gpus.values():
        assert gpu.memory_source
        assert gpu.bandwidth is not None
        assert 1e11 < gpu.bandwidth < 1e13
        assert gpu.flops is not None
        assert 1e13 < gpu.flops < 1e16
        assert gpu.bandwidth_source
        assert gpu.compute_source
        # Between the decimal and the binary reading of the number in its name or on its sheet, or a little below.
        assert 14 * 2**30 < gpu.memory_bytes < 200 * 2**30
    for model in catalog.models.values():
        assert model.source.startswith("https://huggingface.co/")
        assert (model.parameters is None) == (model.parameters_source is None)
        read_shape(model.config)


def test_every_model_of_ours_can_be_planned_where_its_weights_are_given() -> None:
    catalog = read_catalog()
    for model in catalog.models.values():
        told = weights_of(model, read_shape(model.config), given=10**9)
        assert make_plan(Demand(model, catalog.gpu("H200").memory_bytes, told)).blocks > 1000


def test_names_in_any_case_with_and_without_an_owner() -> None:
    catalog = read_catalog()
    assert catalog.gpu(" h100 ") is catalog.gpu("H100-80GB") is catalog.gpu("H100-SXM")
    assert catalog.model("META-LLAMA/llama-3.1-8b") is catalog.model("Llama-3.1-8B-Instruct")


def test_unknown_names_are_told_what_is_known() -> None:
    with pytest.raises(InvalidArgumentError, match=r"GPU 'H300' is unknown; known are T4, L4, .*X; .*--gpu-memory"):
        read_catalog().gpu("H300")
    with pytest.raises(InvalidArgumentError, match=r"'gpt-9' is unknown; .*config.json.*Llama-3.1-8B.*--catalog"):
        read_catalog().model("gpt-9")
    for name in ("", "/", "h100/", "x" * 10_000):
        with pytest.raises(InvalidArgumentError, match="is unknown"):
            read_catalog().gpu(name)


def test_a_file_adds_and_corrects(tmp_path: Path) -> None:
    more = 'bandwidth_gb_per_s = 864\ntflops_16bit = 362.05\naliases = ["m"]\ncompute_source = "a sheet"\n'
    toml = write(tmp_path, GPU + more + '[[gpu]]\nname = "h200"\nmemory = 1000\n' + MODEL)
    catalog = read_catalog(toml)
    mine = catalog.gpu("mine")
    assert catalog.gpu("M") is mine
    assert (mine.memory_bytes, mine.bandwidth, mine.flops) == (48 * 2**30, 864e9, 362.05e12)
    assert (mine.memory_source, mine.bandwidth_source, mine.compute_source) == ("mine.toml", "mine.toml", "a sheet")
    assert catalog.gpu("H200").memory_bytes == 1000
    assert catalog.gpu("H200").bandwidth is None
    assert catalog.gpu("H100").memory_bytes == 81_559 * 2**20
    small = catalog.model("small")
    assert (small.parameters, small.parameters_source, small.source) == (1000, "mine.toml", "mine.toml")
    assert read_shape(small.config).head_dim == 8


def test_json_and_the_path_of_a_config(tmp_path: Path) -> None:
    config = {"model_type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 4}
    (tmp_path / "small").mkdir()
    write(tmp_path / "small", json.dumps(config), "config.json")
    content = {"gpu": [{"name": "Mine", "memory": 5}], "model": [{"name": "Small", "config": "small"}]}
    catalog = read_catalog(write(tmp_path, json.dumps(content), "mine.json"))
    assert catalog.gpu("mine").memory_bytes == 5
    assert catalog.model("small").config == config
    assert catalog.model("small").source == str(tmp_path / "small")


def test_a_name_of_an_owner_alone_is_no_name_of_nothing(tmp_path: Path) -> None:
    catalog = read_catalog(write(tmp_path, GPU.replace("Mine", "lab/")))
    assert catalog.gpu("LAB/").name == "lab/"
    with pytest.raises(InvalidArgumentError, match="is unknown"):
        catalog.gpu("")


def test_the_last_file_wins(tmp_path: Path) -> None:
    one, two = write(tmp_path, GPU), write(tmp_path, GPU.replace("48", "24"), "two.toml")
    assert read_catalog(one, two).gpu("mine").memory_bytes == 24 * 2**30
    assert read_catalog(two, one).gpu("mine").memory_bytes == 48 * 2**30


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gpu = 3", r"gpu is no list of tables; write \[\[gpu\]\]"),
        ('[gpu]\nname = "x"', "gpu is no list of tables"),
        ("gpu = [1]", "gpu is no list of tables"),
        ("[[gpus]]", "has 'gpus'; it may have gpu and model"),
        ("[[gpu]]", r"gpu 1: name is missing"),
        ('[[gpu]]\nname = "x"', r"gpu 1: memory is missing"),
        (GPU + '[[gpu]]\nname = ""\nmemory = 1', "gpu 2: name is ''"),
        ("[[gpu]]\nname = 5\nmemory = 1", "gpu 1: name is 5"),
        (GPU.replace("48GiB", "48GB"), "size '48GB' is not understood"),
        (GPU.replace('"48GiB"', "0"), "size in bytes is 0"),
        (GPU.replace('"48GiB"', "48.5"), "size in bytes is 48.5"),
        (GPU + "bandwidth = 3", "'bandwidth' is unknown; known are name, aliases, memory"),
        (GPU + "bandwidth_gb_per_s = 0", "bandwidth_gb_per_s is 0; give a number above 0"),
        (GPU + "bandwidth_gb_per_s = -1", "above 0"),
        (GPU + "tflops_16bit = nan", "tflops_16bit is nan"),
        (GPU + "tflops_16bit = inf", "tflops_16bit is inf"),
        (GPU + 'tflops_16bit = "many"', "tflops_16bit is 'many'"),
        (GPU + 'aliases = "x"', "aliases is 'x'; give a list of names"),
        (GPU + "aliases = [1]", "aliases"),
        (GPU + "memory_source = 3", "memory_source is 3"),
        ('[[model]]\nname = "x"', "model 1: config is missing"),
        ('[[model]]\nname = "x"\nconfig = 3', "config is a int; give a config.json's fields"),
        ('[[model]]\nname = "x"\nconfig = "nowhere.json"', "nowhere.json' cannot be read"),
        (MODEL.replace("1000", "0"), "parameters is 0"),
        (MODEL.replace("1000", "1.5"), "parameters is 1.5"),
        (MODEL.replace("1000", "true"), "parameters is True"),
        ("[[gpu", "is no TOML"),
        ("\x00", "is no TOML"),
    ],
)
def test_bad_files_say_where(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words) as caught:
        read_catalog(write(tmp_path, text))
    assert "mine.toml" in str(caught.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "latin.toml").write_bytes(b'[[gpu]]\nname = "\xe4"')
    for name in ("latin.toml", "missing.toml", "no\0name.toml", ""):
        with pytest.raises(InvalidArgumentError, match="catalog"):
            read_catalog(tmp_path / name)
    for text in ("[1]", "3", "{", ""):
        with pytest.raises(InvalidArgumentError, match="catalog"):
            read_catalog(write(tmp_path, text, "mine.json"))
