"""A router that applies drained events in order holds exactly what the cache finds."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from cases.reuse import Reuse, span
from model.consumer import salt_digest
from model.event_record import CLEARED, REMOVED, STORED
from pagedkv import CacheEvents, KVCacheManager

from .random_reuse import SALTS, Engine, every_prompt


@dataclass(frozen=True)
class Content:
    parent: int
    tokens: tuple[int, ...]
    salt: int


@dataclass
class Router:
    """A picture of one cache, made of its events alone."""

    held: dict[int, Content] = field(default_factory=dict)
    ever: dict[int, Content] = field(default_factory=dict)

    def apply(self, events: CacheEvents) -> list[int]:
        for i, kind in enumerate(events.kinds.tolist()):
            serial, parent = int(events.serials[i]), int(events.parents[i])
            tokens = tuple(events.tokens[events.token_starts[i] : events.token_starts[i + 1]].tolist())
            if kind == CLEARED:
                self.held.clear()
            elif kind == STORED:
                content = Content(parent, tokens, int(events.salt_digests[i]))
                assert serial not in self.held
                assert parent == 0 or parent in self.held, "a parent comes before its children"
                assert self.ever.setdefault(serial, content) == content, "a serial was given to another content"
                assert content not in self.held.values(), "one event a content"
                self.held[serial] = content
            else:
                assert kind == REMOVED
                assert tokens == ()
                del self.held[serial]
                assert all(content.parent != serial for content in self.held.values()), "children go first"
        assert events.token_starts.tolist()[-1] == len(events.tokens)
        return events.kinds.tolist()

    def find(self, tokens: tuple[int, ...], salt: bytes, block_size: int) -> int:
        serials = {content: serial for serial, content in self.held.items()}
        parent = found = 0
        while found + block_size <= len(tokens):
            content = Content(parent, tokens[found : found + block_size], salt_digest(salt))
            if content not in serials:
                break
            parent, found = serials[content], found + block_size
        return found


def _agree(router: Router, manager: KVCacheManager, prompts: list[tuple[int, ...]]) -> None:
    for salt in SALTS:
        for prompt in prompts:
            hit = manager.lookup(prompt, salt=salt, max_hit_tokens=len(prompt))
            assert router.find(prompt, salt, manager.block_size) == hit, (salt, prompt)


@pytest.mark.parametrize("equal_hashes", [False, True])
@pytest.mark.parametrize(("num_blocks", "block_size"), [(5, 2), (9, 2), (12, 1), (30, 1)])
@pytest.mark.parametrize("seed", range(4))
def test_a_router_holds_what_the_cache_finds(seed: int, num_blocks: int, block_size: int, equal_hashes: bool) -> None:
    """Drained after each call, after many, and after so many that the record was given up."""
    manager = KVCacheManager(num_blocks, block_size, prefix_caching=True, _constant_hash=equal_hashes)
    engine, router = Engine(manager, seed), Router()
    prompts = every_prompt(6)
    for turn in range(240):
        engine.turn()
        manager.check()
        often = turn < 80 or (turn < 160 and turn % 11 == 0) or turn in (200, 239)
        if often:
            router.apply(manager.drain_events())
            _agree(router, manager, prompts)
            assert len(manager.drain_events()) == 0


def _record(num_blocks: int = 8) -> tuple[Reuse, Router]:
    cache, router = Reuse(num_blocks, 2), Router()
    assert router.apply(cache.drain_events()) == [CLEARED]
    return cache, router


def test_nothing_is_recorded_before_the_first_drain() -> None:
    """However much happened: the first answer is what there is, parents first."""
    cache = Reuse(8, 2)
    for turn in range(100):
        cache.once([turn, turn, 1])
    cache.compute(1, span(1, 5), salt=b"t")
    events = cache.drain_events()
    router = Router()
    router.apply(events)
    assert events.kinds.tolist() == [CLEARED] + [STORED] * (len(events) - 1)
    assert len(events) - 1 == 2 + cache.cached
    assert router.find((1, 2, 3, 4), b"t", 2) == 4
    assert len(cache.drain_events()) == 0


def test_events_of_one_prompt_field_by_field() -> None:
    cache, _ = _record()
    cache.compute(1, span(1, 5), salt=b"t1")
    table = cache.table(1)
    events = cache.drain_events()
    assert events.kinds.tolist() == [STORED, STORED]
    assert events.blocks.tolist() == table[:2]
    assert events.parents.tolist() == [0, events.serials.tolist()[0]]
    assert (events.token_starts.tolist(), events.tokens.tolist()) == ([0, 2, 4], [1, 2, 3, 4])
    assert events.salt_digests.tolist() == [salt_digest(b"t1")] * 2
    assert min(events.serials.tolist()) > 0
    cache.free([1])
    assert len(cache.drain_events()) == 0, "released is not lost"
    cache.allocator.unpublish(table[0])
    again = cache.drain_events()
    assert again.kinds.tolist() == [REMOVED, REMOVED]
    assert again.serials.tolist() == events.serials.tolist()[::-1]
    assert (again.token_starts.tolist(), again.tokens.tolist()) == ([0, 0, 0], [])


def test_dtypes_and_shapes() -> None:
    cache, _ = _record()
    for fill in (False, True):
        if fill:
            cache.once(span(1, 5))
        events = cache.drain_events()
        n = len(events)
        assert n == (2 if fill else 0)
        names = ["kinds", "blocks", "serials", "parents", "salt_digests"]
        assert [getattr(events, name).shape for name in names] == [(n,)] * 5
        assert [getattr(events, name).dtype for name in names] == [np.int32] * 2 + [np.int64] * 3
        assert (events.token_starts.dtype, events.tokens.dtype) == (np.int64, np.int32)
        assert (events.token_starts.shape, events.tokens.shape) == ((n + 1,), (2 * n,))


def test_one_event_a_content_and_not_a_copy() -> None:
    cache, router = _record()
    for seq_id in (1, 2, 3):
        cache.admit(seq_id, [1, 2, 3])
    cache.append([1, 2, 3], [2, 2, 2])
    cache.commit([1, 2, 3], [2, 2, 2])
    assert router.apply(cache.drain_events()) == [STORED]
    tables = [cache.table(seq_id)[0] for seq_id in (1, 2, 3)]
    for left, block in enumerate(tables):
        assert len(cache.drain_events()) == 0
        cache.allocator.unpublish(block)
        assert cache.found([1, 2, 3]) == (2 if left < 2 else 0)
    assert router.apply(cache.drain_events()) == [REMOVED]


def test_eviction_and_writing_over_are_told() -> None:
    cache, router = _record(3)
    cache.once(span(1, 6))
    cache.compute(1, [8, 9])
    assert router.apply(cache.drain_events()) == [STORED, STORED, STORED, REMOVED, STORED]
    cache.truncate([1], [1])
    assert len(cache.drain_events()) == 0
    cache.append([1], [1], tokens=[7])
    assert router.apply(cache.drain_events()) == [REMOVED]


def test_a_content_that_comes_again_has_a_new_serial() -> None:
    cache, _ = _record()
    serials = []
    for _ in range(50):
        blocks = cache.once([1, 2, 3, 4, 5])
        serials += cache.drain_events().serials.tolist()
        cache.allocator.unpublish(blocks[1])
        assert cache.drain_events().kinds.tolist() == [REMOVED]
        cache.allocator.unpublish(blocks[0])
        cache.drain_events()
    assert len(serials) == len(set(serials)) == 100


def test_reset_is_one_event_and_forgets_what_was_unread() -> None:
    cache, router = _record()
    cache.once(span(1, 5))
    router.apply(cache.drain_events())
    cache.once(span(11, 13))
    cache.reset_prefix_cache()
    cache.once([1, 2, 3])
    assert router.apply(cache.drain_events()) == [CLEARED, STORED]
    assert (router.find((1, 2, 3, 4), b"", 2), router.find((11, 12), b"", 2)) == (2, 0)


@pytest.mark.parametrize("unread", [31, 32, 33, 500])
def test_a_record_that_nobody_reads_ends_at_four_events_a_block(unread: int) -> None:
    """N=8: 32 events are kept. One more, and the next answer is everything again."""
    cache, router = _record()
    cache.compute(1, [1, 2, 3])
    router.apply(cache.drain_events())
    blocks: list[int] = []
    for event in range(unread):
        if event % 2 == 0:
            blocks = cache.once([event, event, 0])
        else:
            cache.allocator.unpublish(blocks[0])
    kinds = router.apply(cache.drain_events())
    if unread <= 32:
        assert kinds == [event % 2 for event in range(unread)]
    else:
        assert kinds == [CLEARED] + [STORED] * (1 + unread % 2)
    assert router.find((1, 2), b"", 2) == 2
    assert router.find((unread - 1, unread - 1), b"", 2) == 2 * (unread % 2)
    assert len(router.held) == 1 + unread % 2
    cache.once([900, 901, 902])
    assert router.apply(cache.drain_events()) == [STORED]


def test_a_lookup_and_a_hit_are_no_events() -> None:
    cache, _ = _record()
    cache.once(span(1, 5))
    cache.drain_events()
    cache.found(span(1, 5))
    cache.compute(1, span(1, 5))
    cache.fork(1, [2])
    cache.free([1, 2])
    assert len(cache.drain_events()) == 0


def test_what_was_drained_is_the_callers() -> None:
    cache, _ = _record()
    cache.once(span(1, 5))
    events = cache.drain_events()
    before = [events.tokens.tolist(), events.serials.tolist()]
    cache.reset_prefix_cache()
    cache.once(span(11, 15))
    cache.drain_events()
    assert [events.tokens.tolist(), events.serials.tolist()] == before
    with pytest.raises(AttributeError):
        events.kinds = events.blocks  # type: ignore[misc]
