"""Plans of published models, every number computed by hand."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from pagedkv.errors import InvalidArgumentError
from pagedkv.model_config import read_shape
from pagedkv.plan import Catalog, Demand, Model, Plan, Weights, make_plan, read_catalog, weights_of

GIB = 2**30
CATALOG: Catalog = read_catalog()


def plan_of(model: str, gpu: str, *, weights: int | None = None, weight_dtype: str | None = None, **more: Any) -> Plan:
    entry = CATALOG.model(model)
    told = weights_of(entry, read_shape(entry.config), given=weights, dtype=weight_dtype)
    return make_plan(Demand(entry, CATALOG.gpu(gpu).memory_bytes, told, **more))


def test_llama_on_an_h100() -> None:
    plan = plan_of("Llama-3.1-8B", "H100")
    # 81,559 MiB x 0.9, rounded down; 8,030,261,248 parameters of 2 bytes; 2 x 32 layers x 8 heads x 128 x 2 bytes.
    assert plan.usable_bytes == 81_559 * 2**20 * 9 // 10 == 76_968_728_985
    assert plan.weights_bytes == 16_060_522_496
    assert plan.kv_bytes == 60_908_206_489
    assert plan.layout.token_bytes == 131_072
    assert plan.blocks == 60_908_206_489 // (16 * 131_072) == 29_043
    assert [(one.kind, one.layers, one.token_bytes, one.window) for one in plan.kinds] == [
        ("full attention", 32, 131_072, None)
    ]
    fit = plan.fit(1024)
    assert (fit.blocks, fit.nbytes, fit.sequences) == (64, 2**27, 453)
    assert (fit.window_bytes, fit.window_sequences) == (None, None)
    assert [plan.fit(length).sequences for length in (1, 16, 17, 131_072)] == [29_043, 29_043, 14_521, 3]
    assert plan.fit(29_043 * 16).sequences == 1
    assert plan.fit(29_043 * 16 + 1).sequences == 0


def test_llama_on_an_h200_in_fp8() -> None:
    plan = plan_of("meta-llama/Llama-3.1-8B", "h200", kv_dtype="float8_e4m3fn")
    assert plan.usable_bytes == 143_771 * 2**20 * 9 // 10 == 135_679_338_086
    assert plan.kv_bytes == 135_679_338_086 - 16_060_522_496
    assert plan.layout.token_bytes == 65_536
    assert plan.blocks == 119_618_815_590 // 1_048_576 == 114_077
    scaled = plan_of("Llama-3.1-8B", "H200", kv_dtype="float8_e4m3fn", kv_scales=True)
    assert scaled.layout.token_bytes == 65_536 + 32 * 2 * 8 * 4
    assert scaled.blocks == 119_618_815_590 // (16 * 67_584) == 110_620


def test_fewer_heads_than_ranks_are_repeated() -> None:
    plan = plan_of("Llama-3.1-70B", "H100", tensor_parallel=16)
    assert (plan.kv_heads, plan.layout.num_kv_heads, plan.head_copies) == (8, 1, 2)
    assert plan.layout.token_bytes == 2 * 80 * 1 * 128 * 2 == 40_960
    assert plan.weights_bytes == 141_107_412_992 // 16 == 8_819_213_312
    assert plan.blocks == (76_968_728_985 - 8_819_213_312) // (16 * 40_960) == 103_987
    alike = plan_of("Llama-3.1-70B", "H100", tensor_parallel=8)
    assert (alike.layout.num_kv_heads, alike.head_copies, alike.layout.token_bytes) == (1, 1, 40_960)
    assert alike.blocks < plan.blocks


def test_weights_that_no_number_of_ranks_divides_are_rounded_up() -> None:
    assert Weights(10, "given").rank_bytes(3) == 4
    assert plan_of("Qwen2.5-7B", "A10", tensor_parallel=4, weights=10).weights_bytes == 3


def test_gemma_keeps_windows_in_full_and_says_what_they_need() -> None:
    plan = plan_of("gemma-3-27b", "H200")
    each = 2 * 16 * 128 * 2
    assert [(one.kind, one.layers, one.token_bytes, one.window) for one in plan.kinds] == [
        ("full attention", 10, 10 * each, None),
        ("sliding window", 52, 52 * each, 1024),
    ]
    assert plan.layout.token_bytes == 62 * each == 507_904
    assert plan.weights_bytes == 2 * 27_432_406_640
    assert plan.kv_bytes == 135_679_338_086 - 54_864_813_280 == 80_814_524_806
    assert plan.blocks == 80_814_524_806 // (16 * 507_904) == 9_944
    # 131,072 tokens: 8,192 blocks in every layer; a window of 1,024 tokens touches 65 blocks of 16 at most.
    fit = plan.fit(131_072)
    assert (fit.blocks, fit.sequences) == (8_192, 1)
    assert fit.window_bytes == 16 * each * (10 * 8_192 + 52 * 65) == 16 * each * 85_300
    assert fit.window_sequences == 80_814_524_806 // (131_072 * 85_300) == 7
    short = plan.fit(1024)
    assert (short.window_bytes, short.window_sequences) == (short.nbytes, short.sequences)


def test_deepseek_keeps_one_latent_vector_on_every_rank() -> None:
    plan = plan_of("DeepSeek-V3", "H200", tensor_parallel=8, weights=641 * GIB, block_size=64)
    assert plan.layout.token_bytes == 61 * 576 * 2 == 70_272
    assert [(one.kind, one.layers, one.token_bytes) for one in plan.kinds] == [("latent", 61, 70_272)]
    assert plan.head_copies == 8
    assert plan.weights_bytes == 641 * GIB // 8
    assert plan.blocks == (135_679_338_086 - 641 * GIB // 8) // (64 * 70_272) == 11_038


def test_every_layer_with_a_window_and_one_that_is_not_told() -> None:
    config = {
        "model_type": "mistral", "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2,
        "hidden_size": 8, "torch_dtype": "float32", "sliding_window": 3,
    }  # fmt: skip
    plan = make_plan(Demand(Model("m", config, ""), 10_000, Weights(0, "given"), block_size=4))
    assert [(one.kind, one.layers, one.window) for one in plan.kinds] == [("sliding window", 2, 3)]
    # 3 tokens touch two blocks of 4 at most; a token is 2 x 2 layers x 2 heads x 4 x 4 bytes = 128.
    assert [plan.fit(n).window_bytes for n in (1, 4, 5, 100)] == [512, 512, 1024, 1024]
    assert plan.fit(100).window_sequences == 9000 // 1024
    kinds = ["sliding_attention", "full_attention"]
    untold = {**config, "model_type": "qwen2", "layer_types": kinds, "sliding_window": None}
    plan = make_plan(Demand(Model("m", untold, ""), 10_000, Weights(0, "given"), block_size=4))
    assert [(one.kind, one.layers, one.window) for one in plan.kinds] == [
        ("full attention", 1, None), ("sliding window", 1, None),
    ]  # fmt: skip
    assert plan.fit(100).window_bytes is None


def test_utilization_is_exact_and_a_reserve_counts_on_every_gpu() -> None:
    plan = plan_of("Llama-3.2-1B", "L4", utilization=Fraction("0.123456789"), reserve_bytes=1001)
    usable = 23_034 * 2**20 * 123_456_789 // 10**9
    assert (plan.usable_bytes, plan.kv_bytes) == (usable, usable - 2 * 1_235_814_400 - 1001)
    assert plan_of("Llama-3.2-1B", "L4", utilization=Fraction(1)).usable_bytes == 23_034 * 2**20


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"tensor_parallel": 1}, r"weights of 755.96 GiB a GPU leave nothing of 71.68 GiB.*--tensor-parallel 16 would"),
        ({"tensor_parallel": 8}, r"weights of 94.50 GiB a GPU leave nothing.*--tensor-parallel 16 would fit"),
        ({"reserve_bytes": 72 * GIB}, r"a reserve of 72.00 GiB leave nothing.*no number of such GPUs"),
        ({"weight_dtype": "fp8", "tensor_parallel": 4}, r"weights of 94.50 GiB a GPU.*--tensor-parallel 8 would fit"),
        ({"tensor_parallel": 3}, "8 KV heads cannot be shared by 3 ranks"),
        ({"tensor_parallel": 0}, "tensor_parallel is 0"),
        ({"tensor_parallel": 16, "reserve_bytes": -1}, "reserve_bytes is -1"),
        ({"tensor_parallel": 16, "weights": -1}, "bytes of the weights is -1"),
        ({"tensor_parallel": 2048}, "tensor_parallel is 2048"),
        ({"block_size": 0, "tensor_parallel": 16}, "block_size"),
        ({"kv_dtype": "float64", "tensor_parallel": 16}, "float64"),
        ({"kv_scales": True, "tensor_parallel": 16}, "scales"),
        ({"utilization": Fraction(0)}, "utilization is 0"),
        ({"utilization": Fraction(3, 2)}, "utilization is 1.5"),
    ],
)
def test_what_does_not_fit_or_makes_no_sense(more: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        plan_of("Llama-3.1-405B", "H100", **more)


def test_a_block_must_fit_whole() -> None:
    entry = CATALOG.model("Llama-3.1-8B")
    block = 16 * 131_072

    def blocks(left: int) -> int:
        return make_plan(Demand(entry, 100 + left, Weights(100, "given"), utilization=Fraction(1))).blocks

    assert [blocks(block), blocks(2 * block - 1), blocks(2 * block)] == [1, 1, 2]
    with pytest.raises(InvalidArgumentError, match=r"leave 2097151 bytes .*has 2097152; --tensor-parallel 2 "):
        blocks(block - 1)
    with pytest.raises(InvalidArgumentError, match="leave nothing of"):
        blocks(0)


def test_more_blocks_than_ids() -> None:
    entry = CATALOG.model("Llama-3.2-1B")
    with pytest.raises(InvalidArgumentError, match=r"block ids end at 2147483647; give a larger --block-size"):
        make_plan(Demand(entry, 2**50, Weights(1, "given"), block_size=1))


@pytest.mark.parametrize("length", [0, -1, 1.5, True, 2**31])
def test_lengths_that_make_no_sense(length: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="length"):
        plan_of("Llama-3.1-8B", "H100").fit(length)
