"""What the attention "pagedkv" refuses, because what it would compute is wrong."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
transformers = pytest.importorskip("transformers", reason="Transformers is not installed")

from pagedkv import InvalidArgumentError  # noqa: E402
from pagedkv.integrations.transformers import PagedCache, register_attention  # noqa: E402


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


@pytest.mark.parametrize("option", ["softcap", "s_aux"])
def test_attention_that_no_kernel_computes(option: str) -> None:
    attention = transformers.AttentionInterface()[register_attention()]
    with pytest.raises(InvalidArgumentError, match=option):
        attention(torch.nn.Module(), _states(), _states(), _states(), None, **{option: torch.ones(1)})


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
