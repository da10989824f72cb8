"""The example as users run it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from examples.loading import FOLDER

pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("transformers", reason="Transformers is not installed")


@pytest.mark.parametrize("options", [(), ("--in-place", "--beams", "3")])
def test_beams_on_blocks(options: tuple[str, ...]) -> None:
    command = [sys.executable, str(FOLDER / "transformers_beams.py"), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert "tokens are the same" in done.stdout
    assert 0 < int(done.stdout.rsplit(" ", 1)[1].rstrip("%\n")) < 50
