"""Transformers on a GPU: the decode kernel reads the blocks in place, and tokens are those of the default cache."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
transformers = pytest.importorskip("transformers", reason="Transformers is not installed")

from integrations.tiny_models import ARGUMENT, MODES, Mode, no_blocks_left  # noqa: E402
from pagedkv import InvalidArgumentError  # noqa: E402
from pagedkv.integrations.transformers import PagedCache, register_attention  # noqa: E402

pytestmark = pytest.mark.gpu

VOCABULARY = 997


@cache
def _model(kind: str, dtype: str, head_dim: int = 64) -> Any:
    """Four layers, 8 query heads over 2 KV heads, random weights large enough for outputs that vary."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 4, "max_position_embeddings": 4096}
    heads = {"num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": head_dim}
    tokens = {"vocab_size": VOCABULARY, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    names = {"llama": ("LlamaForCausalLM", "LlamaConfig"), "qwen3": ("Qwen3ForCausalLM", "Qwen3Config")}
    made, config = (getattr(transformers, name) for name in names[kind])
    built = made(config(**sizes, **heads, **tokens)).eval()
    with torch.no_grad():
        for parameter in built.parameters():
            if parameter.ndim > 1:
                parameter.mul_(2.5)
    return built.to(device="cuda", dtype=getattr(torch, dtype))


def _prompt(rows: int, length: int, *, padded: bool) -> dict[str, Any]:
    source = torch.Generator().manual_seed(rows)
    mask = torch.ones((rows, length), dtype=torch.int64)
    if padded:
        for row in range(rows):
            mask[row, : 7 * row] = 0
    ids = torch.randint(3, VOCABULARY, (rows, length), generator=source) * mask
    return {"input_ids": ids.cuda(), "attention_mask": mask.cuda()}


def _generate(subject: Any, mode: Mode, inputs: Any, past: Any, new: int = 24) -> Any:
    torch.manual_seed(7)
    return subject.generate(**inputs, max_new_tokens=new, **{ARGUMENT: past, **mode.options})


@pytest.mark.parametrize("mode", [mode for mode in MODES if not mode.assistant], ids=str)
@pytest.mark.parametrize(("kind", "head_dim"), [("llama", 64), ("qwen3", 128)])
def test_float32_tokens_are_those_of_the_default_cache(kind: str, head_dim: int, mode: Mode) -> None:
    subject = _model(kind, "float32", head_dim)
    block_size = (8, 16, 64)[(len(mode.name) + len(kind)) % 3]
    inputs = _prompt(mode.rows, 75, padded=mode.padded)
    subject.set_attn_implementation("sdpa")
    expected = _generate(subject, mode, inputs, None)
    for attention in ("sdpa", register_attention()):
        subject.set_attn_implementation(attention)
        past = PagedCache(subject, num_blocks=16_000 // block_size, block_size=block_size)
        assert torch.equal(_generate(subject, mode, inputs, past), expected)
        assert no_blocks_left(past)
        past.close()


def test_float32_tokens_on_another_stream() -> None:
    subject, mode = _model("llama", "float32"), MODES[5]
    inputs = _prompt(mode.rows, 75, padded=True)
    subject.set_attn_implementation("sdpa")
    expected = _generate(subject, mode, inputs, None)
    subject.set_attn_implementation(register_attention())
    past = PagedCache(subject, num_blocks=1000, block_size=16)
    torch.cuda.synchronize()
    for stream in (torch.cuda.Stream(), torch.cuda.current_stream(), torch.cuda.Stream()):
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            assert torch.equal(_generate(subject, mode, inputs, past), expected)
            past.reset()


def test_decoding_uploads_once_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    subject, mode = _model("llama", "float32"), MODES[1]
    subject.set_attn_implementation(register_attention())
    past = PagedCache(subject, num_blocks=1000, block_size=16)
    inputs = _prompt(3, 75, padded=False)
    _generate(subject, mode, inputs, past)
    past.reset()
    calls = {"decode_attention": 0, "gather_kv": 0}
    for name in calls:
        original = getattr(past.pool, name)

        def counted(*args: Any, _name: str = name, _original: Any = original, **kwargs: Any) -> None:
            calls[_name] += 1
            _original(*args, **kwargs)

        monkeypatch.setattr(past.pool, name, counted)
    uploads = []
    upload = past._memory.store.upload  # type: ignore[union-attr]
    monkeypatch.setattr(past._memory.store, "upload", lambda *arrays: uploads.append(1) or upload(*arrays))
    _generate(subject, mode, inputs, past)
    assert calls == {"decode_attention": 23 * 4, "gather_kv": 0}
    assert len(uploads) == 24


def test_bfloat16_logits_are_as_near_to_float64_as_those_of_the_default_cache() -> None:
    """The same tokens are forced on all: a prompt at once, then one token at a time."""
    subject = _model("llama", "bfloat16")
    exact = copy.deepcopy(subject).double()
    exact.set_attn_implementation("sdpa")
    ids, prompt = _prompt(4, 600, padded=False)["input_ids"], 512

    def logits(model: Any, past: Any) -> Any:
        with torch.no_grad():
            parts = [model(ids[:, :prompt], **{ARGUMENT: past}).logits[:, -1:]]
            parts += [model(ids[:, at : at + 1], **{ARGUMENT: past}).logits for at in range(prompt, ids.shape[1])]
        return torch.cat(parts, dim=1).double()

    reference = logits(exact, transformers.DynamicCache())
    spread = float(reference.std())
    errors = {}
    for name, attention in (("default", "sdpa"), ("gathered", "sdpa"), ("in place", register_attention())):
        subject.set_attn_implementation(attention)
        past = transformers.DynamicCache() if name == "default" else PagedCache(subject, num_blocks=400)
        off = (logits(subject, past) - reference).abs()
        errors[name] = (float(off.max()) / spread, float(off.square().mean().sqrt()) / spread)
    print(
        {
            name: f"max {most:.4f}, rms {typical:.5f} of the logits' deviation"
            for name, (most, typical) in errors.items()
        }
    )
    for name in ("gathered", "in place"):
        assert errors[name][1] <= 1.1 * errors["default"][1]
        assert errors[name][0] <= 1.5 * errors["default"][0]
        assert errors[name][0] < 0.25


def test_four_beams_take_less_memory() -> None:
    subject, mode, prompt, new = _model("llama", "bfloat16"), MODES[4], 1024, 64
    inputs = _prompt(1, prompt, padded=False)
    peaks = {}
    for name, attention in (("default", "sdpa"), ("gathered", "sdpa"), ("in place", register_attention())):
        subject.set_attn_implementation(attention)
        past = transformers.DynamicCache() if name == "default" else PagedCache(subject, num_blocks=400)
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        subject.generate(**inputs, max_new_tokens=new, eos_token_id=None, **{ARGUMENT: past, **mode.options})
        peaks[name] = torch.cuda.max_memory_allocated() - before
        if name == "default":
            stored = sum(states.nbytes for layer in past.layers for states in (layer.keys, layer.values))
        else:
            blocks = past.peak_nbytes
            peaks[name] += blocks
    print(f"blocks {blocks} bytes, default cache {stored}; peaks with all that PyTorch allocates: {peaks}")
    assert blocks < 0.4 * stored
    assert peaks["in place"] < peaks["default"]


def test_tensors_on_another_device() -> None:
    subject = _model("llama", "float32")
    past = PagedCache(subject, num_blocks=10)
    here, there = (torch.zeros((1, 2, 3, 64), device=device) for device in ("cuda", "cpu"))
    past.update(here, here, 0)
    with pytest.raises(InvalidArgumentError, match="on cpu"):
        past.update(there, there, 1)
    assert past.get_seq_length() == 3
