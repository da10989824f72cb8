"""The SOSP'23 artifact's list of ShareGPT lengths, read for these tests: `input_len,output_len`, one request a row."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pagedkv.simulate import Workload

FILE = Path("sharegpt-opt-sosp23") / "sharegpt_opt_text_completion_length.csv"
MODEL_LENGTH = 2048


def read_sharegpt(traces: Path) -> Workload:
    """All requests that fit the paper's model, prompt + output < 2048, in file order."""
    rows = np.loadtxt(traces / FILE, delimiter=",", skiprows=1, dtype=np.int64)
    rows = rows[rows.sum(axis=1) < MODEL_LENGTH]
    return Workload(np.ascontiguousarray(rows[:, 0]), np.ascontiguousarray(rows[:, 1]))
