"""What the attention "pagedkv" refuses, because what it would compute is wrong."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
transformers = pytest.importorskip("transformers", reason="Transformers is not installed")

from pagedkv import DevicePool, InvalidArgumentError  # noqa: E402
from pagedkv.integrations.transformers import PagedCache, register_attention  # noqa: E402

from .tiny_models import ARGUMENT  # noqa: E402


def _states(batch: int = 2, count: int = 4, *, heads: int = 2) -> Any:
    return torch.randn((batch, heads, count, 8))


def _filled(**options: Any) -> PagedCache:
    """Two rows of four tokens in two layers, of a model that runs "pagedkv"."""
    config = transformers.LlamaConfig(num_hidden_layers=2, hidden_size=16, num_attention_heads=2)
    config._attn_implementation = register_attention()
    cache = PagedCache(config, num_blocks=20, block_size=4)
    for layer in range(2):
        cache.update(_states(2, 4), _states(2, 4), layer, **options)
    return cache


@pytest.mark.parametrize("options", [{}, {"kwargs": {}}])
def test_attention_that_does_not_read_what_it_is_given_is_found_out(options: dict[str, Any]) -> None:
    cache = _filled(**options)
    k, v = cache.update(_states(2, 1), _states(2, 1), 0, **options)
    assert k.shape == (2, 2, 5, 8)
    assert bool(k.isnan().all() and v.isnan().all())
    with pytest.raises(InvalidArgumentError, match="layer 0 did not read K and V"):
        cache.update(_states(2, 1), _states(2, 1), 1, **options)
    assert cache.get_seq_length() == 4


def test_attention_that_no_kernel_computes() -> None:
    attention = transformers.AttentionInterface()[register_attention()]
    with pytest.raises(InvalidArgumentError, match="s_aux"):
        attention(torch.nn.Module(), _states(), _states(), _states(), None, s_aux=torch.ones(1))


def test_a_soft_cap_in_place_and_gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small enough that without it, or with it elsewhere, another token is chosen."""
    config = transformers.Gemma2Config(
        num_hidden_layers=3,
        hidden_size=48,
        intermediate_size=80,
        vocab_size=61,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=12,
        query_pre_attn_scalar=12,
        attn_logit_softcapping=0.7,
        sliding_window=5,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
    )
    torch.manual_seed(0)
    model = transformers.Gemma2ForCausalLM(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(6.0 if parameter.ndim > 1 else 1.0)
    ids = torch.randint(3, 61, (2, 9))
    ids[0, :3] = 0
    mask = (ids != 0).long()
    found = {}
    calls: list[Any] = []
    attend = DevicePool.decode_attention
    monkeypatch.setattr(
        DevicePool, "decode_attention", lambda *given, **more: (calls.append(1), attend(*given, **more))
    )
    for name in ("eager", register_attention()):
        model.set_attn_implementation(name)
        options = {} if name == "eager" else {ARGUMENT: PagedCache(model, num_blocks=60, block_size=4)}
        out = model.generate(
            input_ids=ids,
            attention_mask=mask,
            max_new_tokens=12,
            min_new_tokens=12,
            do_sample=False,
            output_logits=True,
            return_dict_in_generate=True,
            **options,
        )
        found[name] = torch.stack(out.logits)
    eager, paged = found.values()
    assert torch.allclose(eager, paged, atol=1e-4 * float(eager.abs().max()))
    assert len(calls) == 11 * 3


def test_attention_that_gets_other_keys_is_found_out() -> None:
    attention = transformers.AttentionInterface()[register_attention()]
    cache = _filled(kwargs={})
    options: dict[str, Any] = {}
    k, v = cache.update(_states(2, 1), _states(2, 1), 0, kwargs=options)
    query = _states(2, 1, heads=4)
    out, _ = attention(torch.nn.Module(), query, k, v, None, **options)
    assert out.shape == (2, 1, 4, 8)
    for other in ((k.clone(), v), (k, v[:])):
        with pytest.raises(InvalidArgumentError, match="layer 0 changes K and V"):
            attention(torch.nn.Module(), query, *other, None, **options)


def test_layers_that_share_what_another_stored_read_it_in_place_too() -> None:
    attention = transformers.AttentionInterface()[register_attention()]
    cache = _filled(kwargs={})
    options: dict[str, Any] = {}
    k, v = cache.update(_states(2, 1), _states(2, 1), 0, kwargs=options)
    query = _states(2, 1, heads=4)
    first, _ = attention(torch.nn.Module(), query, k, v, None, **options)
    shared, _ = attention(torch.nn.Module(), query, k, v, None)
    assert torch.equal(first, shared)
    assert bool(first.isfinite().all())


def test_a_mask_made_from_keys_or_values_is_found_out() -> None:
    attention = transformers.AttentionInterface()[register_attention()]
    cache = _filled()
    k, v = cache.update(_states(2, 1), _states(2, 1), 0)
    module, query, mask = torch.nn.Module(), _states(2, 1, heads=2), torch.zeros(2, 1, 1, 5)
    out, _ = attention(module, query, k, v, mask)
    assert bool(out.isfinite().all())
    with pytest.raises(InvalidArgumentError, match="computes with K or V"):
        attention(module, query, k, v, mask + v[:, :1, :, :1].mT)
