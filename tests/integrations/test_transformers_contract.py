"""K and V that a PagedCache hands out are those of the default cache, bit by bit, whatever is done to both."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
transformers = pytest.importorskip("transformers", reason="Transformers is not installed")

from pagedkv.integrations.transformers import PagedCache  # noqa: E402

LAYERS, HEADS, K_DIM, V_DIM = 3, 2, 5, 3


def _config() -> Any:
    return transformers.LlamaConfig(num_hidden_layers=LAYERS, hidden_size=16, num_attention_heads=HEADS)


def _states(source: torch.Generator, batch: int, count: int, equal: list[bool], dim: int, layer: int) -> torch.Tensor:
    """[batch, heads, count, dim] as models make it; rows that are `equal` repeat the row before, but for one bit in a
    layer of their own for every third of them.
    """
    states = torch.randn((batch, count, HEADS, dim), generator=source)
    for row in range(1, batch):
        if equal[row % len(equal)]:
            states[row] = states[row - 1]
            if (row + len(equal)) % 3 == 2 and layer == row % LAYERS:
                states[row, -1, -1, -1] += 1.0
    return states.transpose(1, 2)


class Pair:
    """The same calls on both caches."""

    def __init__(self, block_size: int, seed: int, layout: dict[str, Any]) -> None:
        self.paged = PagedCache(_config(), num_blocks=4000, block_size=block_size, **layout)
        self.default = transformers.DynamicCache()
        self.source = torch.Generator().manual_seed(seed)
        self.batch = 0

    def step(self, batch: int, count: int, equal: list[bool]) -> None:
        self.batch = self.batch or batch
        assert self.paged.get_mask_sizes(count, 0) == self.default.get_mask_sizes(count, 0)
        for layer in range(LAYERS):
            k, v = (_states(self.source, self.batch, count, equal, dim, layer) for dim in (K_DIM, V_DIM))
            for mine, theirs in zip(
                self.paged.update(k, v, layer), self.default.update(k.clone(), v.clone(), layer), strict=True
            ):
                assert torch.equal(mine, theirs)

    def both(self, call: str, *arguments: Any) -> None:
        if self.batch:
            for cache in (self.paged, self.default):
                getattr(cache, call)(*arguments)

    def check(self) -> None:
        self.paged.manager.check()
        assert self.paged.get_seq_length() == self.default.get_seq_length()
        if self.paged.get_seq_length():
            rows = self.paged.batch_size
            assert rows == self.default.layers[0].keys.shape[0] == self.batch


_EQUAL = st.lists(st.booleans(), min_size=1, max_size=4)
_CALLS = st.one_of(
    st.tuples(st.just("step"), st.integers(1, 5), st.integers(1, 9), _EQUAL),
    st.tuples(st.just("step"), st.integers(1, 5), st.just(1), _EQUAL),
    st.tuples(st.just("reorder_cache"), st.lists(st.integers(0, 99), min_size=8, max_size=8)),
    st.tuples(st.just("crop"), st.integers(0, 7)),
    st.tuples(st.just("batch_repeat_interleave"), st.integers(1, 3)),
    st.tuples(st.just("batch_select_indices"), st.lists(st.integers(0, 99), min_size=1, max_size=6)),
    st.tuples(st.just("reset")),
)


@given(
    calls=st.lists(_CALLS, max_size=14),
    block_size=st.sampled_from((1, 2, 3, 16)),
    seed=st.integers(0, 99),
    layout=st.fixed_dictionaries(
        {}, optional={"kv_layout": st.sampled_from(("NHD", "HND")), "order": st.sampled_from(("block", "layer"))}
    ),
)
def test_any_calls_give_the_same_bits(calls: list[Any], block_size: int, seed: int, layout: dict[str, Any]) -> None:
    pair = Pair(block_size, seed, layout)
    for name, *arguments in calls:
        if name == "step":
            pair.step(*arguments)
        elif name == "reorder_cache":
            indices = [index % pair.batch for index in (arguments[0] * 12)[: pair.batch]] if pair.batch else []
            pair.both(name, torch.tensor(indices, dtype=torch.int32))
        elif name == "crop":
            # The default cache cropped to nothing still has rows; ours takes a new batch then.
            pair.both(name, -min(arguments[0], max(0, pair.default.get_seq_length() - 1)))
        elif name == "batch_repeat_interleave":
            repeats = arguments[0] if pair.batch * arguments[0] <= 40 else 1
            pair.both(name, repeats)
            pair.batch *= repeats
        elif name == "batch_select_indices":
            indices = [index % pair.batch for index in arguments[0]] if pair.batch else []
            pair.both(name, torch.tensor(indices, dtype=torch.int64))
            pair.batch = len(indices)
        else:
            pair.both(name)
            pair.batch = 0
        if pair.batch:
            pair.check()
    # What is stored is read back in full by one more step.
    pair.step(2, 2, [False])
    pair.check()
    pair.paged.reset()
    pair.paged.manager.check()
    assert pair.paged.manager.get_stats().allocated_blocks == 0


def _fill(cache: PagedCache, batch: int, count: int, equal: list[bool]) -> None:
    source = torch.Generator().manual_seed(1)
    for layer in range(LAYERS):
        cache.update(*(_states(source, batch, count, equal, dim, LAYERS) for dim in (K_DIM, V_DIM)), layer)


def test_equal_rows_share_all_blocks_of_a_prompt() -> None:
    cache = PagedCache(_config(), num_blocks=100, block_size=4)
    _fill(cache, 5, 10, [True])
    assert cache.manager.get_stats().allocated_blocks == 3
    # Chunks go on in the last block without a copy; single tokens do not share.
    _fill(cache, 5, 3, [True])
    stats = cache.manager.get_stats()
    assert (stats.allocated_blocks, stats.cow_copies) == (4, 0)
    _fill(cache, 5, 1, [True])
    assert cache.manager.get_stats().allocated_blocks == 3 + 5


def test_nothing_is_shared_unasked() -> None:
    cache = PagedCache(_config(), num_blocks=100, block_size=4, share_equal_rows=False)
    _fill(cache, 5, 10, [True])
    assert cache.manager.get_stats().allocated_blocks == 15


def test_a_row_that_differs_in_a_later_layer_gets_blocks_of_its_own() -> None:
    cache = PagedCache(_config(), num_blocks=100, block_size=4)
    source = torch.Generator().manual_seed(1)
    for layer in range(LAYERS):
        k, v = (_states(source, 4, 10, [True], dim, LAYERS) for dim in (K_DIM, V_DIM))
        if layer == 1:
            v[3, 0, 9, 0] = -v[3, 0, 9, 0]
        cache.update(k, v, layer)
        assert cache.manager.get_stats().allocated_blocks == (3 if layer == 0 else 6)
        cache.manager.check()


def test_several_rows_of_a_group_part_at_once() -> None:
    cache = PagedCache(_config(), num_blocks=100, block_size=4)
    k, v = (torch.randn(1, HEADS, 10, dim).repeat(4, 1, 1, 1) for dim in (K_DIM, V_DIM))
    v_parted = v.clone()
    v_parted[1:] += 1  # rows 1 and 2 stay together
    v_parted[3] += 1
    for layer in range(LAYERS):
        cache.update(k, v if layer == 0 else v_parted, layer)
    assert cache.manager.get_stats().allocated_blocks == 3 * 3
    for layer in range(LAYERS):
        stored = cache.update(k[:, :, :1], v[:, :, :1], layer)
        assert torch.equal(stored[0][:, :, :10], k)
        assert torch.equal(stored[1][:, :, :10], v if layer == 0 else v_parted)
    cache.manager.check()


def test_zeros_of_both_signs_are_not_equal_and_nans_are() -> None:
    cache = PagedCache(_config(), num_blocks=100, block_size=4)
    k, v = (torch.zeros(3, HEADS, 4, dim) for dim in (K_DIM, V_DIM))
    k[2] = -k[2]
    k[0, 0, 0, 0] = k[1, 0, 0, 0] = torch.nan
    cache.update(k, v, 0)
    assert cache.manager.get_stats().allocated_blocks == 2


def test_a_reorder_copies_nothing_and_the_next_token_only_tails() -> None:
    cache = PagedCache(_config(), num_blocks=100, block_size=4)
    _fill(cache, 4, 10, [True])
    _fill(cache, 4, 1, [False])
    before = cache.manager.get_stats()
    cache.reorder_cache(torch.tensor([2, 2, 2, 0], dtype=torch.int32))
    assert cache.manager.get_stats().cow_copies == before.cow_copies
    assert cache.manager.get_stats().allocated_blocks == 2 + 2
    _fill(cache, 4, 1, [False])
    assert cache.manager.get_stats().cow_copies == before.cow_copies + 2


@pytest.mark.parametrize("kept", [None, "float32", "float16", "bfloat16", "float8_e4m3fn"])
@pytest.mark.parametrize("given", ["float32", "float16", "bfloat16"])
def test_formats_are_kept_or_converted(given: str, kept: str | None) -> None:
    cache = PagedCache(_config(), num_blocks=20, block_size=4, dtype=kept)
    states = [torch.randn(2, HEADS, 5, K_DIM).to(getattr(torch, given)) for _ in range(2)]
    for layer in range(LAYERS):
        k, v = cache.update(*states, layer)
        assert k is states[0]
        assert v is states[1]
    for layer in range(LAYERS):
        expected = [each.to(getattr(torch, kept or given)).to(each.dtype) for each in states]
        for got, stored in zip(cache.update(*states, layer), expected, strict=True):
            assert got.dtype == stored.dtype
            assert torch.equal(got[:, :, :5], stored)
    assert cache.nbytes == 2 * 3 * 4 * LAYERS * HEADS * 2 * K_DIM * getattr(torch, kept or given).itemsize
