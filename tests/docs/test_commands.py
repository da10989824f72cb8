"""Every `pagedkv` command that the documentation shows runs, ends with the exit code that it says, and prints what it
shows: the lines below a command, in their order, `...` standing for any others.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from .pages import PAGES, Block, blocks, run_pagedkv, write_files


@dataclass(frozen=True, slots=True)
class Command:
    """One command of a block with the lines shown below it."""

    block: Block
    words: tuple[str, ...]
    shown: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        return int(self.block.option("exit") or 0)


def _commands(block: Block) -> list[Command]:
    found: list[tuple[str, list[str]]] = []
    for line in block.body.splitlines():
        command = line.removeprefix("$ ").partition("#")[0].strip()
        starts = line.startswith("$ ") or block.language == "sh"
        if starts:
            found.append((command, []))
        elif found:
            found[-1][1].append(line)
    return [
        Command(block, tuple(command.split()), tuple(shown))
        for command, shown in found
        if command.split()[:1] == ["pagedkv"]
    ]


COMMANDS = [
    command
    for page in PAGES
    for block in blocks(page)
    if block.language in ("console", "sh")
    for command in _commands(block)
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: f"{c.block}:{'_'.join(c.words[1:])}")
def test_command_ends_and_prints_as_shown(command: Command, tmp_path: Path) -> None:
    write_files(command.block.page, tmp_path)
    ran = run_pagedkv(command.words[1:], tmp_path)
    assert ran.returncode == command.exit_code, ran.stdout + ran.stderr
    assert "Traceback" not in ran.stderr
    printed = (ran.stdout + ran.stderr).splitlines()
    place = 0
    gap = False
    for line in command.shown:
        if line == "...":
            gap = True
            continue
        assert line in printed[place:], f"{line!r} is not in the output (or not there):\n{ran.stdout}{ran.stderr}"
        found = printed.index(line, place)
        assert gap or found == place, f"{line!r} does not follow at once; show ... where lines are left out"
        place, gap = found + 1, False
    assert not command.shown or gap or place == len(printed), f"more is printed: {printed[place:]}"


def test_there_are_commands() -> None:
    assert len(COMMANDS) >= 8
