"""What a PagedCache refuses, and what it still holds afterwards."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
transformers = pytest.importorskip("transformers", reason="Transformers is not installed")

from pagedkv import BackendError, InvalidArgumentError, NeverFitsError, OutOfBlocksError  # noqa: E402
from pagedkv.integrations.transformers import PagedCache  # noqa: E402

from .tiny_models import ARGUMENT, MODES, Mode, generate, model, no_blocks_left, prompt  # noqa: E402


def _config(**options: Any) -> Any:
    return transformers.LlamaConfig(num_hidden_layers=2, hidden_size=16, num_attention_heads=2, **options)


def _states(batch: int = 2, count: int = 4, *, heads: int = 2, dim: int = 8, dtype: Any = torch.float32) -> Any:
    return torch.randn((batch, heads, count, dim)).to(dtype)


def _cache(num_blocks: int = 20) -> PagedCache:
    return PagedCache(_config(), num_blocks=num_blocks, block_size=4)


def test_out_of_blocks_within_generate_leaves_the_rows_of_the_step_before() -> None:
    subject = model("llama")
    cache = PagedCache(subject, num_blocks=7, block_size=4)
    inputs = prompt(Mode("", rows=2), 0)
    with pytest.raises(OutOfBlocksError):
        generate(subject, MODES[0], inputs, cache, 0)
    assert cache.get_seq_length() == 12, "two rows of three full blocks; the fourth of the second row was missing"
    cache.manager.check()
    cache.crop(-3)
    # One row fits the pool, and goes on.
    cache.batch_select_indices(torch.tensor([0]))
    with torch.no_grad():
        subject(inputs["input_ids"][:1, :3], **{ARGUMENT: cache})
    assert cache.get_seq_length() == 12
    assert no_blocks_left(cache)
    one = {name: tensor[:1] for name, tensor in inputs.items()}
    assert torch.equal(generate(subject, MODES[0], one, cache, 0), generate(subject, MODES[0], one, None, 0))


def test_a_prompt_that_does_not_fit_leaves_an_empty_cache() -> None:
    cache = _cache(num_blocks=3)
    with pytest.raises(OutOfBlocksError):
        cache.update(_states(2, 8), _states(2, 8), 0)
    assert (cache.get_seq_length(), cache.batch_size) == (0, -1)
    with pytest.raises(NeverFitsError):
        cache.update(_states(1, 13), _states(1, 13), 0)
    cache.manager.check()
    cache.update(_states(1, 12), _states(1, 12), 0)
    assert no_blocks_left(cache)


@pytest.mark.parametrize("length", [0, 6])
def test_no_blocks_for_a_row_that_turns_out_to_differ_takes_the_step_back(length: int) -> None:
    cache = _cache(num_blocks=4)
    before = _states(1, length).expand(3, -1, -1, -1)
    for layer in range(2 if length else 0):
        cache.update(before, before, layer)
    k = _states(1, 8).expand(3, -1, -1, -1)
    cache.update(k, k, 0)
    assert cache.get_seq_length() == length + 8
    v = k.clone()
    v[2, 0, 0, 0] += 1
    if length == 0:
        v[1, 0, 0, 0] += 2
    with pytest.raises(OutOfBlocksError):
        cache.update(k, v, 1)
    assert cache.get_seq_length() == length
    cache.manager.check()
    for layer in range(2):
        after = cache.update(k[:, :, :1], k[:, :, :1], layer)[0]
        assert torch.equal(after[:, :, -1], k[:, :, 0])
        assert torch.equal(after[:, :, :length], before)
    assert no_blocks_left(cache)


def test_chunks_that_do_not_fit_keep_the_rows_shared() -> None:
    cache = _cache(num_blocks=3)
    k = _states(1, 6).expand(3, -1, -1, -1)
    cache.update(k, k, 0)
    cache.update(k, k, 1)
    with pytest.raises(NeverFitsError):
        cache.update(_states(1, 9).expand(3, -1, -1, -1), _states(1, 9).expand(3, -1, -1, -1), 0)
    assert cache.manager.get_stats().allocated_blocks == 2
    cache.manager.check()
    assert torch.equal(cache.update(k, k, 0)[0], torch.cat([k, k], dim=2))


def test_rows_of_another_number() -> None:
    cache = _cache()
    cache.update(_states(2), _states(2), 0)
    cache.update(_states(2), _states(2), 1)
    with pytest.raises(InvalidArgumentError, match="2 rows, K and V have 3"):
        cache.update(_states(3), _states(3), 0)
    with pytest.raises(InvalidArgumentError, match="beam_idx has 3 entries, the cache 2 rows"):
        cache.reorder_cache(torch.tensor([0, 1, 1]))
    for indices in ([0, 2], [-3], [[0]], [0.5]):
        with pytest.raises(InvalidArgumentError, match="rows of the cache's 2"):
            cache.batch_select_indices(torch.tensor(indices))
    with pytest.raises(InvalidArgumentError, match="repeats"):
        cache.batch_repeat_interleave(0)
    assert cache.get_seq_length() == 4
    cache.batch_select_indices(torch.tensor([False, True]))
    assert cache.batch_size == 1


def test_layers_of_one_step_that_disagree_take_it_back() -> None:
    cache = _cache()
    cache.update(_states(2, 4), _states(2, 4), 0)
    with pytest.raises(InvalidArgumentError, match="layer 1 adds 3 tokens to 2 rows"):
        cache.update(_states(2, 3), _states(2, 3), 1)
    assert cache.get_seq_length() == 0


@pytest.mark.parametrize(
    ("k", "v"),
    [
        ({"dtype": torch.float16}, {"dtype": torch.float16}),
        ({"heads": 1}, {"heads": 1}),
        ({"dim": 4}, {"dim": 8}),
        ({"dtype": torch.float16}, {}),
        ({"count": 3}, {}),
    ],
)
def test_k_and_v_of_another_shape_or_format(k: dict[str, Any], v: dict[str, Any]) -> None:
    cache = _cache()
    cache.update(_states(), _states(), 0)
    with pytest.raises(InvalidArgumentError):
        cache.update(_states(**k), _states(**v), 1)
    assert cache.get_seq_length() == 4


def test_devices_and_formats_that_no_pool_has() -> None:
    cache = _cache()
    with pytest.raises(InvalidArgumentError, match="device meta"):
        cache.update(_states().to("meta"), _states().to("meta"), 0)
    with pytest.raises(InvalidArgumentError, match="float64"):
        cache.update(_states(dtype=torch.float64), _states(dtype=torch.float64), 0)
    cache.update(_states(), _states(), 0)
    with pytest.raises(InvalidArgumentError, match="on meta"):
        cache.update(_states().to("meta"), _states().to("meta"), 1)
    for layer in (-1, 2, 0.0):
        with pytest.raises(InvalidArgumentError, match="layer_idx"):
            cache.update(_states(), _states(), layer)  # type: ignore[arg-type]


def test_sizes_that_make_no_sense() -> None:
    for wrong in (
        {},
        {"num_blocks": 4, "pool_bytes": 4096},
        {"num_blocks": 0},
        {"num_blocks": 4, "block_size": 0},
        {"pool_bytes": "4MB"},
        {"num_blocks": 4, "dtype": "float64"},
        {"num_blocks": 4, "order": "token"},
    ):
        with pytest.raises(InvalidArgumentError):
            PagedCache(_config(), **wrong)
    cache = PagedCache(_config(), pool_bytes=1000)
    with pytest.raises(InvalidArgumentError, match="pool_bytes is 1000, one block is 4096"):
        cache.update(_states(), _states(), 0)
    cache = PagedCache(_config(), pool_bytes="12KiB")
    cache.update(_states(), _states(), 0)
    assert (cache.manager.num_blocks, cache.nbytes, cache.peak_nbytes) == (3, 8192, 8192)


def test_models_that_keep_more_than_k_and_v() -> None:
    with pytest.raises(InvalidArgumentError, match="encoder-decoder"):
        PagedCache(transformers.T5Config(), num_blocks=4)
    with pytest.raises(InvalidArgumentError, match="linear_attention"):
        PagedCache(transformers.Qwen3NextConfig(), num_blocks=4)
    with pytest.raises(InvalidArgumentError, match="no model"):
        PagedCache("llama", num_blocks=4)


def test_a_closed_cache() -> None:
    with _cache() as cache:
        with pytest.raises(BackendError, match="NO_POOL_YET"):
            _ = cache.pool
        cache.update(_states(), _states(), 0)
        pool = cache.pool
    cache.close()
    assert pool.closed
    with pytest.raises(BackendError, match="POOL_CLOSED"):
        cache.update(_states(), _states(), 0)
    assert (cache.get_seq_length(), cache.nbytes) == (0, 0)
    assert "closed" in repr(cache)


def test_a_forward_pass_that_ended_in_the_middle_is_found_out() -> None:
    cache = _cache()
    k, v = _states(2, 4), _states(2, 4)
    for layer in range(2):
        cache.update(k, v, layer)
    cache.update(_states(2, 3), _states(2, 3), 0)
    for _ in range(2):
        with pytest.raises(InvalidArgumentError, match=r"without layer 1: crop\(-3\)"):
            cache.update(_states(2, 1), _states(2, 1), 0)
    assert cache.get_seq_length() == 7
    cache.crop(-3)
    for layer in range(2):
        assert torch.equal(cache.update(k, v, layer)[0], torch.cat([k, k], dim=2))
    cache.reset()
    for length in (4, 8):  # after a reset it may be another model's
        assert cache.update(k, v, 0)[0].shape[2] == length
    assert no_blocks_left(cache)


def test_copies_are_refused() -> None:
    cache = _cache()
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(InvalidArgumentError, match="batch_repeat_interleave"):
            copied(cache)
