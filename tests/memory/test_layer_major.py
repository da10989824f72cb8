"""A cache over a layer-major pool: the same plans, every byte where each layer's kernels look for it."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from pagedkv import DevicePool, KVCache, KVCacheManager, KVLayout, open_cache
from pagedkv.backends import Backend
from pagedkv.backends.host import HostBackend
from pagedkv.errors import InvalidArgumentError, SequenceStateError

from . import pattern_by_hand, pieces_by_hand

BLOCKS = 24
SCRATCH = 1
LAYOUTS = [
    KVLayout(3, 2, 8, "bfloat16", 4, order="layer"),
    KVLayout(2, 2, 8, "int8", 4, order="layer", kv_layout="HND", v_head_dim=4, scales=True),
    KVLayout.latent(2, 24, "float16", 4, order="layer"),
]

Owners = dict[int, list[int]]  # of every sequence, the name under which each of its tokens was written


@pytest.fixture(params=LAYOUTS, ids=str)
def layout(request: pytest.FixtureRequest) -> KVLayout:
    chosen = request.param
    assert isinstance(chosen, KVLayout)
    return chosen


@pytest.fixture(params=[False, True], ids=["eager", "stepped"])
def cache(request: pytest.FixtureRequest, layout: KVLayout) -> KVCache:
    return opened(layout, HostBackend(stepped=request.param))


def opened(layout: KVLayout, device: str | Backend = "host") -> KVCache:
    size = layout.pool_bytes(BLOCKS + SCRATCH)
    return open_cache(size, layout.block_size, layout, device=device, scratch_blocks=SCRATCH)


def write(cache: KVCache, owners: Owners, ids: list[int], counts: list[int]) -> int:
    """Append and write under a name of this step's own; returns the number of copies."""
    plan = cache.append(ids, counts)
    names: list[int] = []
    positions: list[int] = []
    for seq_id, count in zip(ids, counts, strict=True):
        positions += range(len(owners[seq_id]), len(owners[seq_id]) + count)
        names += [1000 * plan.step + seq_id] * count
        owners[seq_id] += [1000 * plan.step + seq_id] * count
    cache.pool.fill_tokens(names, positions, plan.slots)
    return len(plan.copies)


def check(cache: KVCache, owners: Owners) -> None:
    """Every token of every sequence, by the kernel and, at the addresses of its parts, by hand."""
    cache.manager.check()
    ids = sorted(owners)
    names = [name for seq_id in ids for name in owners[seq_id]]
    positions = [position for seq_id in ids for position in range(len(owners[seq_id]))]
    slots = cache.slot_mapping(ids)
    assert cache.pool.verify_tokens(names, positions, slots) == 0
    layout = cache.pool.layout
    for name, position, slot in zip(names, positions, slots.tolist(), strict=True):
        pieces = pieces_by_hand.token(layout, cache.pool.total_blocks, slot)
        held = b"".join(ctypes.string_at(cache.pool.base + start, size) for start, size in pieces)
        assert held == pattern_by_hand.token(name, position, layout.token_bytes)


def test_forks_and_beams_keep_their_own_bytes(cache: KVCache) -> None:
    owners: Owners = {1: []}
    with cache:
        cache.register_sequence(1, range(6))
        copies = write(cache, owners, [1], [6])
        cache.fork(1, [2, 3])
        owners |= {2: list(owners[1]), 3: list(owners[1])}
        copies += write(cache, owners, [1, 2, 3], [1, 2, 3])
        check(cache, owners)
        assert copies == 2, "the last to write a shared block keeps it"
        for parents in ([0, 0, 1], [2, 2, 2], [1, 0, 2], [0, 1, 1]):
            cache.reorder([1, 2, 3], parents)
            before = [list(owners[seq_id]) for seq_id in (1, 2, 3)]
            owners.update({seq_id: list(before[parent]) for seq_id, parent in zip((1, 2, 3), parents, strict=True)})
            copies += write(cache, owners, [3, 1, 2], [1, 1, 1])
            check(cache, owners)
        assert copies >= 6
        cache.free([1, 3])
        del owners[1], owners[3]
        cache.register_sequence(4)
        owners[4] = []
        write(cache, owners, [4, 2], [9, 5])
        check(cache, owners)


def test_a_block_held_from_outside_is_copied_with_every_piece(cache: KVCache) -> None:
    with cache:
        owners: Owners = {1: []}
        cache.register_sequence(1)
        write(cache, owners, [1], [6])
        tail = cache.get_page_table(1).get_physical_id(1)
        cache.allocator.increment_ref(tail)
        held = cache.pool.read_blocks([tail])
        assert write(cache, owners, [1], [1]) == 1
        check(cache, owners)
        after = cache.pool.read_blocks([tail])
        cache.pool.stream.synchronize()
        assert held.any()
        assert np.array_equal(held, after)


@pytest.mark.parametrize("kv_layout", ["NHD", "HND"])
def test_addresses_of_tokens_are_those_of_their_layer_and_part(kv_layout: str) -> None:
    layout = KVLayout(3, 2, 8, "int8", 4, order="layer", kv_layout=kv_layout, scales=True)  # type: ignore[arg-type]
    with opened(layout) as cache:
        cache.register_sequence(1)
        cache.append_tokens(1, 7)
        block = cache.get_page_table(1).get_physical_id(1)
        for layer in range(3):
            for part in ("k", "v", "k_scale", "v_scale"):
                view = layout.part_view(layer, part, BLOCKS + SCRATCH)
                token_axis = 1 if kv_layout == "NHD" else 2
                expected = view.offset + block * view.strides[0] + 2 * view.strides[token_axis]
                assert cache.get_token_ptr(1, 6, layer=layer, part=part) - cache.pool.base == expected
                assert cache.pool.token_ptr(block, 2, layer, part) - cache.pool.base == expected
        for no_layer, no_part in ((3, "k"), (-1, "k"), (0, "q"), (0.5, "k")):
            with pytest.raises(InvalidArgumentError):
                cache.get_token_ptr(1, 0, layer=no_layer, part=no_part)  # type: ignore[arg-type]


def test_a_block_has_no_single_address(layout: KVLayout) -> None:
    with opened(layout) as cache:
        cache.register_sequence(1)
        cache.append_token(1)
        with pytest.raises(SequenceStateError, match="in a layer-major pool ask for a token's address"):
            cache.allocator.get_block_ptr(0)
        for call in (cache.pool.block_ptr, cache.pool.bytes_of):
            with pytest.raises(InvalidArgumentError, match="lies in many places"):
                call(0)


def test_one_layer_of_one_part_is_block_major_in_either_order() -> None:
    layout = KVLayout.latent(1, 32, "float16", 4, order="layer")
    with opened(layout) as cache:
        assert cache.allocator.get_block_ptr(3) == cache.pool.block_ptr(3) == cache.pool.bytes_of(3).ctypes.data


def test_one_manager_serves_pools_of_both_orders(layout: KVLayout) -> None:
    """The same plans leave the same tokens in both; only the places differ."""
    manager = KVCacheManager(8, layout.block_size)
    block_major = KVLayout(
        layout.num_layers, layout.num_kv_heads, layout.head_dim, layout.dtype, layout.block_size,
        kv_layout=layout.kv_layout, v_head_dim=layout.v_head_dim, scales=layout.scales,
    )  # fmt: skip
    pools = [DevicePool(layout, 8), DevicePool(block_major, 8)]
    manager.admit(1, (), reserve=0)
    for count in (6, 3):
        plan = manager.append([1], [count])
        start = manager.seq_length(1) - count
        for pool in pools:
            pool.apply(plan)
            pool.fill_tokens(1, range(start, start + count), plan.slots)
        if count == 6:
            manager.allocator.increment_ref(manager.get_page_table(1).get_physical_id(1))
        else:
            assert len(plan.copies) == 1
    for pool in pools:
        assert pool.verify_tokens(1, range(9), manager.slot_mapping([1])) == 0
        pool.close()


def test_bytes_past_4_gib_are_reached() -> None:
    """K of layer 1 starts beyond 4 GiB; lazily committed, only the touched pages cost memory."""
    layout = KVLayout(2, 8, 128, "bfloat16", 16, order="layer")
    blocks = 2**32 // layout.layer_bytes + 2
    with DevicePool(layout, blocks, device="host") as pool:
        assert pool.token_ptr(0, 0, layer=1) - pool.base > 2**32
        pool.fill_blocks([0, blocks - 1], [1, 2])
        pool.copy_blocks([(0, 7), (blocks - 1, 9)])
        assert pool.verify_blocks([0, blocks - 1, 7, 9], [1, 2, 1, 2]) == 0
        pool.scrub_blocks([0, blocks - 1])
        assert pool.verify_floats([0, blocks - 1], 0) == 0
        assert pool.verify_blocks([7, 9], [1, 2]) == 0
