"""What Transformers 4.5x calls, and what other code may ask of a cache. CI runs `generate` under 4.57, too."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
transformers = pytest.importorskip("transformers", reason="Transformers is not installed")

from pagedkv.integrations.transformers import PagedCache  # noqa: E402


@pytest.fixture
def cache() -> PagedCache:
    """Two rows of six tokens in two layers."""
    config = transformers.LlamaConfig(num_hidden_layers=2, hidden_size=16, num_attention_heads=2)
    made = PagedCache(config, num_blocks=20, block_size=4)
    for layer in range(2):
        made.update(torch.randn(2, 2, 6, 8), torch.randn(2, 2, 6, 8), layer, {"sin": None, "cos": None})
    return made


def test_positions_instead_of_their_number(cache: PagedCache) -> None:
    assert cache.get_mask_sizes(torch.arange(6, 9), 1) == (9, 0) == cache.get_mask_sizes(3, 1)


def test_lengths(cache: PagedCache) -> None:
    assert cache.get_usable_length(5) == cache.get_seq_length() == cache.get_query_offset() == 6
    assert cache.get_max_cache_shape() == cache.get_max_length() == cache.get_max_length(1) == -1


def test_a_crop_to_a_length(cache: PagedCache) -> None:
    cache.crop(9)
    assert cache.get_seq_length() == 6
    cache.crop(4)
    assert cache.get_seq_length() == 4
    assert cache.manager.get_stats().allocated_blocks == 2
    cache.crop(0)
    assert cache.get_seq_length() == 4
    cache.crop(-9)
    assert (cache.get_seq_length(), cache.batch_size) == (0, -1)


def test_what_kind_of_cache_it_is(cache: PagedCache) -> None:
    assert len(cache) == 2
    assert cache.is_sliding == cache.is_linear == cache.is_dummy == [False, False]
    assert (cache.is_compileable, cache.is_croppable, cache.is_initialized, cache.batch_size) == (False, True, True, 2)
    cache.activate_past_recording()
    assert not cache.is_recording_past(0)
    cache._is_user_defined = True
    assert repr(cache) == f"<PagedCache 2 layers, 2 rows of 6 tokens, {cache.nbytes} bytes in use>"


def test_layers_of_a_forward_pass_have_their_own_lengths(cache: PagedCache) -> None:
    cache.update(torch.randn(2, 2, 3, 8), torch.randn(2, 2, 3, 8), 0)
    assert (cache.get_seq_length(), cache.get_seq_length(1), cache.get_mask_sizes(3, 1)) == (9, 6, (9, 0))
    cache.update(torch.randn(2, 2, 3, 8), torch.randn(2, 2, 3, 8), 1)
    assert cache.get_seq_length(1) == 9
