"""Every `python` block runs, in order and in one namespace a page, and prints what the block below it says."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from itertools import pairwise
from pathlib import Path

import pytest

from .pages import PAGES, Block, blocks, page_name, write_files

OUTPUT = ("text", "output")


def _is_run(block: Block) -> bool:
    return block.language == "python" and "no-run" not in block.info


def _expected(found: list[Block], index: int) -> str:
    following = found[index + 1] if index + 1 < len(found) else None
    return following.body if following is not None and following.info == OUTPUT else ""


@pytest.mark.parametrize("page", [p for p in PAGES if any(map(_is_run, blocks(p)))], ids=page_name)
def test_python_blocks_run_and_print_what_is_said(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(page, tmp_path)
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": f"docs_{page.stem}"}
    found = blocks(page)
    for index, block in enumerate(found):
        if not _is_run(block):
            continue
        printed = io.StringIO()
        # Newlines in front: a traceback then shows the page's own line numbers.
        code = compile("\n" * block.line + block.body, str(page), "exec")
        with redirect_stdout(printed):
            exec(code, namespace)
        assert printed.getvalue() == _expected(found, index), str(block)


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_output_block_stands_below_python(page: Path) -> None:
    found = blocks(page)
    assert not found or found[0].info != OUTPUT
    for above, below in pairwise(found):
        assert below.info != OUTPUT or _is_run(above), str(below)
