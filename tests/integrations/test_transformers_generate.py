"""Tokens of `generate` with blocks are those with the default cache: every mode, model and attention."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
transformers = pytest.importorskip("transformers", reason="Transformers is not installed")

from pagedkv.integrations.transformers import PagedCache, register_attention  # noqa: E402

from .tiny_models import MODES, WINDOW, Mode, generate, model, no_blocks_left, prompt  # noqa: E402

MODELS = ("llama", "qwen2", "qwen3", "gpt2")
BLOCK_SIZES = (1, 3, 16)


@pytest.fixture(params=["sdpa", "eager", register_attention()])
def attention(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def use() -> Iterator[Any]:
    """Sets a model's attention, and puts back what it was."""
    before: list[tuple[Any, str]] = []

    def use(language_model: Any, attention: str) -> Any:
        before.append((language_model, language_model.config._attn_implementation))
        language_model.set_attn_implementation(attention)
        return language_model

    yield use
    for language_model, name in reversed(before):
        language_model.set_attn_implementation(name)


def _seed(name: str, mode: Mode, attention: str) -> int:
    """Prompts and block sizes take turns: every pair of two of these meets all of them."""
    return (MODELS.index(name) if name in MODELS else 0) + [m.name for m in MODES].index(mode.name) + len(attention)


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_tokens_are_those_of_the_default_cache(name: str, mode: Mode, attention: str, use: Any) -> None:
    subject, seed = model(name), _seed(name, mode, attention)
    inputs, block_size = prompt(mode, seed), BLOCK_SIZES[seed % len(BLOCK_SIZES)]
    use(subject, "eager" if attention == "eager" else "sdpa")
    expected = generate(subject, mode, inputs, None, seed)
    use(subject, attention)
    cache = PagedCache(subject, num_blocks=1200 // block_size, block_size=block_size)
    # The second time in the same blocks, which then hold stale bytes.
    for _ in range(2):
        assert torch.equal(generate(subject, mode, inputs, cache, seed), expected)
        assert no_blocks_left(cache)


@pytest.mark.parametrize("mode", [m for m in MODES if m.name in ("greedy-padded", "beams", "chunks")], ids=str)
@pytest.mark.parametrize("name", ["mistral", "gemma3"])
def test_sliding_windows_are_stored_in_full(name: str, mode: Mode, attention: str, use: Any) -> None:
    subject, seed = model(name), _seed(name, mode, attention)
    inputs, block_size = prompt(mode, seed), BLOCK_SIZES[seed % len(BLOCK_SIZES)]
    use(subject, "eager" if attention == "eager" else "sdpa")
    expected = generate(subject, mode, inputs, None, seed)
    use(subject, attention)
    cache = PagedCache(subject, num_blocks=1200 // block_size, block_size=block_size)
    assert torch.equal(generate(subject, mode, inputs, cache, seed), expected)
    assert cache.get_seq_length() > WINDOW
    assert no_blocks_left(cache)


@pytest.mark.parametrize("mode", [m for m in MODES if m.name in ("greedy", "greedy-padded", "chunks")], ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_a_conversation_goes_on_from_its_cache(name: str, mode: Mode, attention: str, use: Any) -> None:
    subject = model(name)
    replies = []
    for paged in (False, True):
        use(subject, attention if paged or attention == "eager" else "sdpa")
        cache: Any = PagedCache(subject, num_blocks=300, block_size=3) if paged else transformers.DynamicCache()
        inputs = prompt(mode, 1)
        for turn in range(3):
            ids = generate(subject, mode, inputs, cache, turn)
            more = prompt(Mode("turn", rows=mode.rows), 5 + turn)["input_ids"]
            ids = torch.cat([ids, more], dim=1)
            mask = inputs["attention_mask"]
            added = torch.ones((mode.rows, ids.shape[1] - mask.shape[1]), dtype=mask.dtype)
            inputs = {"input_ids": ids, "attention_mask": torch.cat([mask, added], dim=1)}
        replies.append(ids)
    assert torch.equal(*replies)
    assert no_blocks_left(cache)


def test_attention_reads_blocks_in_place_when_it_decodes(use: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    subject = use(model("llama"), register_attention())
    cache = PagedCache(subject, num_blocks=400, block_size=4)
    generate(subject, MODES[0], prompt(MODES[0], 0), cache, 0)
    cache.reset()
    calls = {"gather_kv": 0, "decode_attention": 0}
    for name in calls:
        original = getattr(cache.pool, name)

        def counted(*args: Any, _name: str = name, _original: Any = original, **kwargs: Any) -> None:
            calls[_name] += 1
            _original(*args, **kwargs)

        monkeypatch.setattr(cache.pool, name, counted)
    generate(subject, MODES[5], prompt(MODES[5], 0), cache, 0)
    assert calls["gather_kv"] == 0
    assert calls["decode_attention"] >= 13 * len(cache)


def test_other_caches_work_with_the_registered_attention(use: Any) -> None:
    subject, inputs = model("llama"), prompt(MODES[5], 0)
    expected = generate(use(subject, "sdpa"), MODES[5], inputs, None, 0)
    assert torch.equal(generate(use(subject, register_attention()), MODES[5], inputs, None, 0), expected)


def test_a_mask_with_holes_is_gathered(use: Any) -> None:
    subject, inputs = model("llama"), prompt(Mode("", rows=2), 0)
    inputs["attention_mask"][1, 4:6] = 0
    expected = generate(use(subject, "sdpa"), MODES[0], inputs, None, 0)
    use(subject, register_attention())
    cache = PagedCache(subject, num_blocks=100, block_size=4)
    assert torch.equal(generate(subject, MODES[0], inputs, cache, 0), expected)


@pytest.mark.parametrize("attention", ["sdpa", register_attention()])
def test_a_compiled_model_takes_the_cache(attention: str) -> None:
    subject, mode = deepcopy(model("llama")), Mode("", rows=2, options={"num_beams": 2})
    inputs = prompt(mode, 0)
    subject.set_attn_implementation("sdpa")
    expected = generate(subject, mode, inputs, None, 0)
    subject.set_attn_implementation(attention)
    for layer in subject.model.layers:
        layer.compile(backend="eager", dynamic=True)
    cache = PagedCache(subject, num_blocks=100, block_size=4)
    assert torch.equal(generate(subject, mode, inputs, cache, 0), expected)
    assert no_blocks_left(cache)
