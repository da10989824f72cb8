"""Runs the command line inside this process, as a shell would see it: exit code, standard output, standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pagedkv.cli import main


@dataclass(frozen=True)
class Finished:
    """What a command left."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """Standard output as strict JSON: NaN and infinity are errors."""

        def refuse(name: str) -> None:
            raise AssertionError(f"{name} in the document")

        document: dict[str, Any] = json.loads(self.out, parse_constant=refuse)
        return document


Run = Callable[..., Finished]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `pagedkv` with these arguments."""

    def run(*arguments: object) -> Finished:
        monkeypatch.setattr(sys, "argv", ["pagedkv", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return Finished(int(ended.value.code or 0), captured.out, captured.err)

    return run


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A small trace: 40 requests, 100 ms apart, the last two without output and without sense."""
    rows = [f"2023-11-16 18:00:{i // 10:02}.{i % 10}000000,{20 + 7 * i},{5 + i % 9}" for i in range(38)]
    file = tmp_path / "trace.csv"
    lines = ["TIMESTAMP,ContextTokens,GeneratedTokens", *rows, "2023-11-16 18:01:00,5,0", "junk,5,5"]
    file.write_text("\r\n".join(lines), encoding="ascii", newline="")
    return file
