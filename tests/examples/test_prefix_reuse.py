"""The prefix reuse example gives the answers of a server without a cache, and finds what it must."""

from __future__ import annotations

import subprocess
import sys

import pytest

from .loading import FOLDER, load

prefix_reuse = load("prefix_reuse")


def answers(num_blocks: int, *, prefix_caching: bool) -> list[list[list[int]]]:
    server = prefix_reuse.Server(num_blocks, prefix_caching=prefix_caching)
    talks = prefix_reuse.chat(server, 4, 6)
    server.cache.check()
    assert server.cache.get_stats().free_blocks == num_blocks
    server.cache.close()
    return [conversation.answers for conversation, _ in talks]


@pytest.mark.parametrize("num_blocks", [16, 17, 20, 30, 41, 42, 256])
def test_the_answers_are_those_of_a_server_that_computes_everything(num_blocks: int) -> None:
    """From a pool that holds one conversation to one in which nothing is evicted."""
    assert answers(num_blocks, prefix_caching=True) == answers(16, prefix_caching=False)


def test_what_is_found() -> None:
    """Prompts of 23, 34, 45 and 56 tokens; 28, 39, 50 and 61 are stored after each turn, the last id is not."""
    server = prefix_reuse.Server(256)
    talks = prefix_reuse.chat(server, 4, 6)
    found = [[turn.cached for turn in taken] for _, taken in talks]
    first, twin = [0, 28, 36, 48], [20, 32, 44, 52]  # whole blocks of four; the twin finds all but what must be left
    assert found == [first, twin, first, twin], "and no tenant finds anything of the other"
    assert [turn.prompt for turn in talks[0][1]] == [23, 34, 45, 56]
    stats = server.cache.get_stats()
    assert (stats.hit_tokens, stats.queried_tokens) == (2 * sum(first + twin), 4 * (23 + 34 + 45 + 56))
    assert server.computed == stats.queried_tokens - stats.hit_tokens + 4 * 4 * 5
    server.cache.close()


def test_the_salt_parts_the_tenants() -> None:
    """The same prompt under the same salt is found, under another one it is not."""
    server = prefix_reuse.Server(256)
    talk = prefix_reuse.Conversation(b"tenant 1")
    assert server.answer(talk, [1, 2, 3, 4, 5], 2).cached == 0
    assert server.answer(prefix_reuse.Conversation(b"tenant 1"), [1, 2, 3, 4, 5], 2).cached == 20
    assert server.answer(prefix_reuse.Conversation(b"tenant 2"), [1, 2, 3, 4, 5], 2).cached == 0
    server.cache.close()


def test_it_runs_as_a_program() -> None:
    command = [sys.executable, str(FOLDER / "prefix_reuse.py"), "--turns", "2", "--length", "3", "--blocks", "64"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = run.stdout.splitlines()
    assert [line.split(",")[0] for line in lines if not line.startswith(" ")][:4] == [
        f"conversation {number}" for number in range(4)
    ]
    # Prompts of 23 and 31 tokens, 25 stored after the first: 0 and 24, the twin 20 and 28; two tenants.
    assert lines[-3].startswith("144 of 216 prompt tokens found, ")
    assert lines[-1] == "64 of 64 blocks free at the end"
    assert run.stderr == ""
