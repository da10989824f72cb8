"""Random programs leave the model's contents, the same plans and the same bytes on a GPU as on the host."""

from __future__ import annotations

import pytest

from .programs import LAYOUTS, Program

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("order", LAYOUTS)
@pytest.mark.parametrize("seed", range(12))
def test_the_gpu_equals_the_model_and_the_host(seed: int, order: str) -> None:
    result = Program("cuda:0", seed, order=order).run(150)
    assert result.copies > 5
    assert result.tokens > 500
    assert result.moves > 100
    assert result.most_saved > 10
    assert len(result.contents) > 1000
    assert result == Program("host", seed, order=order).run(150)
