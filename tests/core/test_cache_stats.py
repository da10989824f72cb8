"""`CacheStats` as an object: its fields, their types, equality."""

from __future__ import annotations

from pagedkv import CacheStats, KVCacheManager

FIELDS = [
    "total_blocks",
    "free_blocks",
    "clean_blocks",
    "cached_blocks",
    "allocated_blocks",
    "pending_blocks",
    "active_sequences",
    "logical_tokens",
    "stored_tokens",
    "utilization_percent",
    "token_utilization_percent",
    "internal_frag_percent",
    "external_frag_percent",
    "logical_blocks",
    "saved_blocks",
    "cow_copies",
    "evictions",
    "peak_allocated_blocks",
    "queried_tokens",
    "hit_tokens",
    "failed_admissions",
]


def _busy() -> CacheStats:
    manager = KVCacheManager(8, 4)
    manager.admit(1, range(6))
    manager.append([1], [6])
    manager.allocator.increment_ref(manager.get_page_table(1).entries)
    manager.append([1], [1])
    manager.admit(2, range(4))
    manager.free([2], after=manager.append([2], [4]).step)
    manager.try_admit(3, range(32))
    return manager.get_stats()


def test_fields_in_the_order_of_the_design() -> None:
    stats = _busy()
    assert list(stats.as_dict()) == FIELDS
    for name, value in stats.as_dict().items():
        assert getattr(stats, name) == value
        assert type(value) is (float if name.endswith("_percent") else int)


def test_one_state_worked_out_by_hand() -> None:
    """Blocks 0, 1 pinned; sequence 1 on 0 and the copy 2; block 3 pending; 4 to 7 clean."""
    assert _busy().as_dict() == {
        "total_blocks": 8,
        "free_blocks": 4,
        "clean_blocks": 4,
        "cached_blocks": 0,
        "allocated_blocks": 4,
        "pending_blocks": 1,
        "active_sequences": 1,
        "logical_tokens": 7,
        "stored_tokens": 4 + 2 + 3,
        "utilization_percent": 50.0,
        "token_utilization_percent": 100 * 9 / 32,
        "internal_frag_percent": 25.0,
        "external_frag_percent": 0.0,
        "logical_blocks": 2,
        "saved_blocks": 0,
        "cow_copies": 1,
        "evictions": 0,
        "peak_allocated_blocks": 4,
        "queried_tokens": 0,
        "hit_tokens": 0,
        "failed_admissions": 1,
    }


def test_equality_is_by_value() -> None:
    assert _busy() == _busy()
    assert _busy() != KVCacheManager(8, 4).get_stats()
    assert _busy() != _busy().as_dict()


def test_repr_names_the_fields() -> None:
    text = repr(_busy())
    assert text.startswith("CacheStats(")
    assert "cow_copies" in text
