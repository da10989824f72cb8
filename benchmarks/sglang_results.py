"""SGLang 0.5.23's figures for the same work, read from what its benchmark prints.

Its tree core in Rust; pages of 16 tokens; a 32k conversation that came in 64 turns of 512 tokens.
"""

import re
from pathlib import Path

CHAIN = re.compile(r"unified-rust page=16 64-node chain of 32k: match\+indices=\s*([\d.]+) us")


def chain_match_us(printed: Path) -> float | None:
    """The least median of all runs in the file: match of the whole conversation, with its indices; microseconds."""
    found = [float(us) for us in CHAIN.findall(printed.read_text(encoding="utf-8"))]
    return min(found, default=None)
