"""Where the exact values and the real traces lie; they are no part of the repository."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest


def _folder(variable: str) -> Path:
    folder = os.environ.get(variable)
    if not folder:
        pytest.skip(f"{variable} is not set: the data of this test is no part of the repository")
    return Path(folder)


@pytest.fixture(scope="session")
def oracle() -> dict[str, Any]:
    """The exact values, by section."""
    values: dict[str, Any] = json.loads((_folder("PAGEDKV_ORACLE_DIR") / "values.json").read_text())
    return values


@pytest.fixture(scope="session")
def traces() -> Path:
    """The folder of real traces."""
    return _folder("PAGEDKV_TRACE_DIR")
