"""The random programs hold on the host too, and find a pool that forgets a copy or a table entry: no GPU needed."""

from __future__ import annotations

import pytest

from pagedkv import DevicePool
from toy.faulty_pools import CopylessPool, StaleTablesPool

from .programs import LAYOUTS, Program


@pytest.mark.parametrize("order", LAYOUTS)
@pytest.mark.parametrize("seed", range(4))
def test_programs_leave_the_models_contents(seed: int, order: str) -> None:
    result = Program("host", seed, order=order).run(150)
    assert result.copies > 100
    assert result.moves > 100
    assert result.most_saved > 10


def test_both_orders_leave_the_same_tokens() -> None:
    first, second = (Program("host", 0, order=order).run(50) for order in LAYOUTS)
    assert first == second


@pytest.mark.parametrize("order", LAYOUTS)
@pytest.mark.parametrize("pool_type", [CopylessPool, StaleTablesPool])
def test_a_pool_that_forgets_is_found(pool_type: type[DevicePool], order: str) -> None:
    with pytest.raises(AssertionError):
        Program("host", 0, pool_type, order).run(150)
