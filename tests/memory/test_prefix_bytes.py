"""Hits on real memory, one at a time: on writes not done yet, on blocks a copy stream reads, on what is rewritten."""

from __future__ import annotations

import pytest

from .prefix_engine import BLOCK_SIZE, PrefixEngine
from .prefix_speakers import Speaker

PROMPT = [0, 1, 0, 1, 0, 1, 0]  # three full blocks and a token


class Stage(PrefixEngine):
    """The engine's steps by hand, with sequences 1, 2, ... in order of their start."""

    def start(self, *, compute: bool = True, ids: list[int] | None = None) -> int:
        asked = ids or PROMPT
        seq_id = self._admit(Speaker(list(asked), b"", (), len(asked), 0, 0), None)
        assert seq_id is not None
        if compute:
            self.say(seq_id)
            self.write()
        return seq_id

    def say(self, seq_id: int, *tokens: int) -> None:
        """These tokens, or without any the rest of its prompt."""
        speaker = self.speakers[seq_id]
        speaker.ids += tokens
        self._plan([seq_id], [len(speaker.ids) - speaker.length], told=bool(tokens))

    def write(self) -> None:
        """The open step's kernels, and their commit."""
        self._write(0, 0)

    def cut(self, seq_id: int, length: int) -> None:
        self.manager.truncate([seq_id], [length])
        self.speakers[seq_id].cut(length)

    def save_and_free(self, seq_id: int) -> None:
        """By a copy stream that has not begun to read when the sequence ends."""
        self.pool.fence(self.copy)
        self._put_read("save", seq_id, self.copy)
        self.manager.free([seq_id], after=self.open_step)
        del self.speakers[seq_id]

    def free(self, seq_id: int) -> None:
        self.manager.free([seq_id])
        del self.speakers[seq_id]

    def blocks(self, seq_id: int) -> list[int]:
        return self._table(seq_id)

    def refs(self, block: int) -> int:
        return self.manager.allocator.get_ref_count(block)

    def read(self, seq_id: int) -> None:
        self._put_read("read", seq_id, self.compute)

    def found(self, ids: list[int]) -> int:
        return self.manager.lookup(ids)

    def finish(self) -> None:
        self._end()


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_a_hit_on_writes_that_are_only_enqueued(stage: Stage) -> None:
    first = stage.start()
    assert stage.compute.pending > 0
    second = stage.start(compute=False)
    assert stage.blocks(second)[:3] == stage.blocks(first)[:3]
    assert stage.speakers[second].written == 6
    stage.read(second)
    stage.finish()


def test_nothing_is_found_before_its_writes_are_enqueued(stage: Stage) -> None:
    first = stage.start(compute=False)
    stage.say(first)
    assert stage.found(PROMPT) == 0
    stage.write()
    assert stage.found(PROMPT) == 6
    stage.finish()


def test_a_hit_on_blocks_that_a_copy_stream_still_reads(stage: Stage) -> None:
    """They come back from pending; nobody waits, since a hit only reads them."""
    stage.save_and_free(stage.start())
    assert stage.manager.get_stats().pending_blocks == 4
    second = stage.start()
    assert stage.speakers[second].length == 7
    assert stage.manager.get_stats().hit_tokens == 6
    stage.read(second)
    stage.finish()


def test_what_a_copy_stream_reads_is_not_written_over_by_who_found_it(stage: Stage) -> None:
    """The sole holder now, but the reader of the ended one is still at work: it writes into a copy."""
    stage.save_and_free(stage.start())
    second = stage.start()
    cut = stage.blocks(second)[1]
    assert stage.refs(cut) == 1
    stage.cut(second, 3)
    stage.say(second, 0, 0)
    assert stage.blocks(second)[1] != cut
    assert stage.found(PROMPT) == 6
    stage.write()
    assert stage.found([0, 1, 0, 0, 0]) == 4
    stage.finish()


def test_a_published_block_with_another_holder_is_copied_before_it_is_rewritten(stage: Stage) -> None:
    first = stage.start()
    second = stage.start()
    shared = stage.blocks(first)[1]
    stage.cut(second, 3)
    stage.say(second, 0, 0)
    stage.write()
    assert stage.refs(shared) == 1
    assert stage.blocks(first)[1] == shared
    assert stage.found(PROMPT) == 6
    assert stage.found([0, 1, 0, 0, 0]) == 4
    stage.read(first)
    stage.read(second)
    stage.finish()


def test_a_published_block_of_one_holder_is_rewritten_in_place_and_found_by_the_new_tokens(stage: Stage) -> None:
    first = stage.start()
    own = stage.blocks(first)[1]
    stage.cut(first, 3)
    assert stage.found(PROMPT) == 6, "what was released is findable until it is written over"
    stage.say(first, 0, 0)
    assert stage.blocks(first)[1] == own
    assert stage.found(PROMPT) == BLOCK_SIZE, "and nothing behind what is written over"
    stage.write()
    assert stage.found([0, 1, 0, 0, 0]) == 4
    stage.read(first)
    stage.finish()


def test_a_hit_survives_the_eviction_of_everything_else(stage: Stage) -> None:
    stage.free(stage.start())
    second = stage.start(compute=False)
    for last in range(4):
        stage.free(stage.start(ids=[1, last % 2, last // 2, *[1] * 10]))
    assert stage.manager.get_stats().evictions > 0
    stage.say(second)
    stage.read(second)
    stage.finish()
