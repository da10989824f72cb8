"""What is found is what was written: random programs on real memory, where a token's bytes are its id."""

from __future__ import annotations

import numpy as np
import pytest

from pagedkv import StepPlan, open_cache

from .random_reuse import Engine

TOKEN_BYTES = 4


@pytest.mark.parametrize("equal_hashes", [False, True])
@pytest.mark.parametrize(("num_blocks", "block_size"), [(5, 2), (8, 2), (12, 1), (6, 3), (24, 2)])
@pytest.mark.parametrize("seed", range(8))
def test_every_sequence_reads_its_own_text(seed: int, num_blocks: int, block_size: int, equal_hashes: bool) -> None:
    size = num_blocks * block_size * TOKEN_BYTES
    options = {"prefix_caching": True, "_constant_hash": equal_hashes}
    with open_cache(size, block_size, TOKEN_BYTES, device="host", **options) as cache:
        manager, pool = cache.manager, cache.pool
        engine = Engine(manager, seed)

        def read(seq_id: int, count: int) -> list[int]:
            blocks = manager.get_page_table(seq_id).entries.tolist()
            return [token for b in blocks for token in pool.bytes_of(b).view(np.int32).tolist()][:count]

        def wrote(seq_id: int, first: int, ids: list[int]) -> None:
            slots = manager.slot_mapping([seq_id], starts=[first], stops=[first + len(ids)]).tolist()
            for slot, token in zip(slots, ids, strict=True):
                pool.bytes_of(slot // block_size).view(np.int32)[slot % block_size] = token

        def planned(plan: StepPlan) -> None:
            pool.apply(plan)

        def admitted(seq_id: int) -> None:
            hit = engine.texts[seq_id]
            assert read(seq_id, len(hit)) == hit, "the blocks that were found hold other tokens"

        engine.wrote, engine.planned, engine.admitted = wrote, planned, admitted
        for _ in range(120):
            engine.turn()
            manager.check()
            for seq_id, text in engine.texts.items():
                assert read(seq_id, len(text)) == text
        stats = manager.get_stats()
        assert stats.queried_tokens > 0
