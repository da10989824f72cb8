"""The pages of the documentation and their fenced blocks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = (REPOSITORY / "README.md", REPOSITORY / "CHANGELOG.md", *sorted((REPOSITORY / "docs").glob("*.md")))

_FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block. info: the words behind the opening fence; line: the fence's line in the page, from 1."""

    page: Path
    line: int
    info: tuple[str, ...]
    body: str

    @property
    def language(self) -> str:
        """The first word, or ""."""
        return self.info[0] if self.info else ""

    def option(self, name: str) -> str | None:
        """The value of `name=value` behind the fence."""
        values = [word.partition("=")[2] for word in self.info if word.startswith(f"{name}=")]
        return values[0] if values else None

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(page, text.count("\n", 0, match.start()) + 1, tuple(match["info"].split()), match["body"])
        for match in _FENCE.finditer(text)
    ]


def prose(page: Path) -> str:
    """Return a page without its fenced blocks."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def inline_code(page: Path) -> list[str]:
    """Return what stands between single backticks in the prose."""
    return re.findall(r"`([^`\n]+)`", prose(page))


def write_files(page: Path, folder: Path) -> None:
    """Write the blocks that are marked `file=NAME` into a folder, for the commands that read them."""
    for block in blocks(page):
        name = block.option("file")
        if name is not None:
            (folder / name).write_text(block.body, encoding="utf-8")


def run_pagedkv(words: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run `pagedkv` with these words in a folder, whatever its exit code."""
    return subprocess.run(
        [sys.executable, "-m", "pagedkv.cli", *words],
        cwd=folder,
        env=os.environ | {"PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def page_name(page: Path) -> str:
    """A test id."""
    return page.name
