"""Statistics and invariants of the reference model, counted from scratch: nothing here is remembered."""

from __future__ import annotations

from collections import Counter

from .reference import ModelManager


def model_stats(model: ModelManager) -> dict[str, int | float]:
    """The fields of `CacheStats`, by the definitions of the design."""
    pool, total, size = model.pool, model.num_blocks, model.block_size
    held = [block for sequence in model.sequences.values() for block in sequence.table]
    in_use = pool.in_use
    stored = sum(pool.blocks[block].fill for block in in_use)
    return {
        "total_blocks": total,
        "free_blocks": pool.available,
        "clean_blocks": len(pool.clean),
        "cached_blocks": len(pool.cached),
        "allocated_blocks": pool.allocated,
        "pending_blocks": len(pool.pending),
        "active_sequences": len(model.sequences),
        "logical_tokens": sum(sequence.length for sequence in model.sequences.values()),
        "stored_tokens": stored,
        "utilization_percent": 100 * pool.allocated / total,
        "token_utilization_percent": 100 * stored / (total * size),
        "internal_frag_percent": 100 * (1 - stored / (len(in_use) * size)) if in_use else 0.0,
        "external_frag_percent": 0.0,
        "logical_blocks": len(held),
        "saved_blocks": len(held) - len(set(held)),
        "cow_copies": model.cow_copies,
        "evictions": pool.evictions,
        "peak_allocated_blocks": pool.peak_allocated,
        "queried_tokens": model.queried_tokens,
        "hit_tokens": model.hit_tokens,
        "failed_admissions": model.failed_admissions,
    }


def check_model(model: ModelManager) -> None:
    """The invariants that the design words; the model must keep them itself before it may judge anybody."""
    pool, size = model.pool, model.block_size
    pending = [block for _, block in pool.pending]
    places = sorted(pool.in_use + pool.clean + pool.cached + pending)
    assert places == list(range(model.num_blocks)), "every block is in exactly one state"
    tables = Counter(block for s in model.sequences.values() for block in s.table)
    reach: dict[int, int] = {}
    for sequence in model.sequences.values():
        assert 0 <= sequence.committed <= sequence.length <= sequence.capacity
        assert len(set(sequence.table)) == len(sequence.table), "a sequence shares no block with itself"
        for column, block in enumerate(sequence.table):
            reach[block] = max(reach.get(block, 0), sequence.tokens_in_column(column))
    for block, entry in enumerate(pool.blocks):
        assert entry.table_refs == tables[block], "references are the recount from the tables"
        assert reach.get(block, 0) <= entry.fill <= size
    if model.prefix_caching:
        _check_contents(model)
    rows = [sequence.row for sequence in model.sequences.values()]
    assert len(set(rows)) == len(rows), "no two sequences share a row"


def _check_contents(model: ModelManager) -> None:
    """Exactly the published blocks are findable, all of them full, and none below a content that is not."""
    pool, contents = model.pool, model.pool.contents
    assert {b for b, entry in enumerate(pool.blocks) if entry.published} == set(contents.content_of)
    for content, blocks in contents.copies.items():
        assert blocks, "a content without a copy is none"
        assert all(contents.content_of[block] == content for block in blocks)
        assert all(pool.blocks[block].fill == model.block_size for block in blocks)
        assert len(content.chain) == 1 or content.head(len(content.chain) - 1) in contents.copies
    assert sum(map(len, contents.copies.values())) == len(contents.content_of)
