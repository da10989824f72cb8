"""What must hold of any plan: more memory never fits less, smaller numbers never fit less, nothing exceeds the GPU."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from pagedkv.plan import Demand, Model, Plan, Weights, make_plan

HEADS = st.sampled_from([1, 2, 4, 8])


@st.composite
def demands(draw: st.DrawFn) -> Demand:
    """Demands that always leave a block: 1 GiB and more of room for models of at most 16 MiB a block."""
    config = {
        "model_type": "mistral",
        "num_hidden_layers": draw(st.integers(1, 12)),
        "num_attention_heads": 8,
        "num_key_value_heads": draw(HEADS),
        "head_dim": draw(st.sampled_from([32, 64, 80, 128])),
        "hidden_size": 512,
        "torch_dtype": "float32",
        "sliding_window": draw(st.none() | st.integers(1, 3000)),
    }
    weights, reserve = draw(st.integers(0, 2**33)), draw(st.integers(0, 2**30))
    return Demand(
        model=Model("drawn", config, "drawn"),
        gpu_bytes=2 * (weights + reserve) + draw(st.integers(2**32, 2**37)),
        weights=Weights(weights, "given"),
        tensor_parallel=draw(st.sampled_from([1, 2, 4, 8, 16])),
        utilization=draw(st.fractions(Fraction(1, 2), 1, max_denominator=100)),
        reserve_bytes=reserve,
        block_size=draw(st.integers(1, 64)),
    )


LENGTHS = st.integers(1, 200_000)


def sizes(plan: Plan, length: int) -> tuple[int, int]:
    return plan.blocks, plan.fit(length).sequences


@given(demands(), LENGTHS)
def test_all_of_it_is_on_the_gpu_and_no_block_more_would_be(demand: Demand, length: int) -> None:
    plan = make_plan(demand)
    taken = plan.weights_bytes + demand.reserve_bytes + plan.layout.pool_bytes(plan.blocks)
    assert (
        taken
        <= plan.usable_bytes
        <= demand.gpu_bytes
        < taken + plan.layout.block_bytes + (demand.gpu_bytes - plan.usable_bytes) + 1
    )
    assert plan.weights_bytes * demand.tensor_parallel >= demand.weights.total_bytes
    fit = plan.fit(length)
    assert fit.sequences * fit.blocks <= plan.blocks < (fit.sequences + 1) * fit.blocks
    assert 0 <= fit.blocks * demand.block_size - length < demand.block_size


@given(demands(), LENGTHS, st.integers(0, 2**36))
def test_more_memory_never_fits_less(demand: Demand, length: int, more: int) -> None:
    larger = replace(demand, gpu_bytes=demand.gpu_bytes + more)
    assert all(a <= b for a, b in zip(sizes(make_plan(demand), length), sizes(make_plan(larger), length), strict=True))


@given(demands(), LENGTHS)
def test_half_the_bytes_a_number_at_least_double_the_blocks(demand: Demand, length: int) -> None:
    whole = make_plan(replace(demand, kv_dtype="float16"))
    half = make_plan(replace(demand, kv_dtype="float8_e4m3fn"))
    assert whole.layout.token_bytes == 2 * half.layout.token_bytes
    assert all(2 * a <= b for a, b in zip(sizes(whole, length), sizes(half, length), strict=True))


@given(demands(), LENGTHS)
def test_more_ranks_never_fit_less(demand: Demand, length: int) -> None:
    """Each has less of the weights, and no more of the heads."""
    more = replace(demand, tensor_parallel=2 * demand.tensor_parallel)
    assert all(a <= b for a, b in zip(sizes(make_plan(demand), length), sizes(make_plan(more), length), strict=True))


@given(demands(), LENGTHS, LENGTHS)
def test_longer_sequences_never_fit_more_and_windows_never_need_more(demand: Demand, one: int, other: int) -> None:
    plan = make_plan(demand)
    short, long = plan.fit(min(one, other)), plan.fit(max(one, other))
    assert short.sequences >= long.sequences
    for fit in (short, long):
        assert (fit.window_bytes is None) == (plan.kinds[-1].window is None)
        if fit.window_bytes is not None and fit.window_sequences is not None:
            assert fit.window_bytes <= fit.nbytes
            assert fit.window_sequences >= fit.sequences
    if short.window_bytes is not None and long.window_bytes is not None:
        assert short.window_bytes <= long.window_bytes


@given(demands(), st.integers(1, 400))
def test_a_window_touches_no_more_blocks_than_said_and_once_as_many(demand: Demand, length: int) -> None:
    """Counted block by block: of every length up to this one, the blocks that hold the last `window` tokens."""
    plan = make_plan(demand)
    if (window := plan.kinds[-1].window) is None:
        return
    size = demand.block_size
    # Up to one window and one block more; from there on it repeats.
    ends = range(1, length + 1)
    touched = max((end - 1) // size - max(0, end - window) // size + 1 for end in ends)
    need = plan.fit(length).window_bytes
    assert need is not None
    said = need // plan.layout.block_bytes
    assert touched <= said
    if length >= window + size:
        assert touched == said
