"""D: a request larger than the pool must be refused for good, not admitted, preempted and tried again."""

from __future__ import annotations

import pytest

from pagedkv import KVCacheManager
from pagedkv.errors import NeverFitsError

from .refused import available, refused


def test_d1_known_final_length_is_refused_at_admission() -> None:
    manager = KVCacheManager(3, 4)
    with refused(manager, NeverFitsError) as caught:
        manager.admit(1, list(range(8)), reserve=20)
    assert (caught.value.needed, caught.value.total) == (5, 3)
    assert "5" in str(caught.value)
    assert "3" in str(caught.value)
    with refused(manager, NeverFitsError):
        manager.try_admit(1, list(range(8)), reserve=19)
    manager.admit(2, list(range(4)), reserve=6)
    manager.append([2], [6])
    manager.free([2])
    assert available(manager) == 3


def test_d1_unknown_final_length_ends_at_the_first_token_too_many() -> None:
    """One sequence alone in the pool: "preempt somebody and try again" would never end."""
    manager = KVCacheManager(3, 4)
    manager.admit(1, list(range(8)))
    manager.append([1], [8])
    for _ in range(4):
        manager.append([1], [1])
    for partial in (False, True):
        with refused(manager, NeverFitsError) as caught:
            manager.append([1], [1], partial=partial)
        assert (caught.value.needed, caught.value.total) == (4, 3)
    manager.free([1])
    assert available(manager) == 3


def test_d1_prompt_larger_than_the_pool_although_nothing_is_reserved() -> None:
    manager = KVCacheManager(3, 4)
    with refused(manager, NeverFitsError):
        manager.admit(1, list(range(13)), reserve=0)
    manager.admit(1, list(range(12)), reserve=0)
    assert available(manager) == 3


def test_d1_full_pool_is_transient_but_too_small_a_pool_is_not() -> None:
    manager = KVCacheManager(3, 4)
    manager.admit(1, list(range(12)))
    assert manager.try_admit(2, list(range(12))) is None
    with refused(manager, NeverFitsError):
        manager.try_admit(2, list(range(13)))


@pytest.mark.parametrize("tokens", [2**31 - 1, 2**31, 2**40, 2**63 - 1, 2**63, 2**70])
def test_d1_absurd_sizes_are_refused_at_once(tokens: int) -> None:
    """No loop, no memory, no overflow into something that fits."""
    manager = KVCacheManager(3, 4)
    with refused(manager, NeverFitsError):
        manager.admit(1, (), reserve=tokens)
    manager.admit(1, [1])
    with refused(manager, NeverFitsError):
        manager.reserve([1], [tokens])
    assert available(manager) == 2
