"""Whether NVRTC is here, asked once."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

needs_nvrtc = pytest.mark.skipif(
    find_spec("cuda") is None or find_spec("cuda.core") is None, reason="cuda-core is not installed: no NVRTC"
)
