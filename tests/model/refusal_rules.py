"""Rules of the state machine for arguments that are never legal: each is a typed error, and nothing has changed.

That nothing changed is shown by the invariant, which compares everything after every rule.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from pagedkv.errors import InvalidArgumentError, NeverFitsError, SequenceStateError

from .drawing import STRANGER, drawn_blocks
from .pin_rules import PinRules

# Negative, fractional, not a number, infinite, a truth value, text, nothing, more than one number.
BAD_NUMBERS = (-1, -(2**31), -(2**63), 1.5, float("nan"), float("inf"), True, "1", None, [1])
HUGE_NUMBERS = (2**31 - 1, 2**31, 2**32, 2**62, 2**63 - 1, 2**63, 2**64, 2**100)


class RefusalRules(PinRules):
    """Wrong numbers, unknown ids and ids that are live already."""

    def _by_count(self, value: Any) -> list[Callable[[], object]]:
        """Every batch call with one live sequence and this value for its number."""
        seq_id = self.live[0]
        manager = self.manager
        return [
            lambda: manager.append([seq_id], [value]),
            lambda: manager.append([seq_id], [value], partial=True),
            lambda: manager.try_append([seq_id], [value]),
            lambda: manager.reserve([seq_id], [value]),
            lambda: manager.try_reserve([seq_id], [value]),
            lambda: manager.reorder([seq_id], [value]),
            lambda: manager.commit([seq_id], [value]),
            lambda: manager.truncate([seq_id], [value]),
            lambda: manager.slot_mapping([seq_id], stops=[value]),
            lambda: manager.slot_mapping([seq_id], starts=[value]),
        ]

    @precondition(lambda self: self.live)
    @rule(value=st.sampled_from(BAD_NUMBERS), call=st.integers(0, 9))
    def bad_number_in_a_batch(self, value: Any, call: int) -> None:
        with pytest.raises(InvalidArgumentError):
            self._by_count(value)[call]()

    @precondition(lambda self: self.live)
    @rule(value=st.sampled_from(HUGE_NUMBERS), call=st.integers(0, 5))
    def huge_number_in_a_batch(self, value: int, call: int) -> None:
        """Beyond any pool of this test: for ever impossible, or beyond max_tokens, found without a loop."""
        limited = self.model.max_tokens is not None
        errors = (InvalidArgumentError,) if limited else (NeverFitsError, InvalidArgumentError)
        with pytest.raises(errors):
            self._by_count(value)[call]()

    @rule(value=st.sampled_from([v for v in BAD_NUMBERS if v is not None]), method=st.integers(0, 5))
    def bad_scalar(self, value: Any, method: int) -> None:
        manager, allocator = self.manager, self.manager.allocator
        calls: list[Callable[[], object]] = [
            lambda: manager.admit(STRANGER, (), reserve=value),
            lambda: manager.admit(STRANGER, (1,), max_hit_tokens=value),
            lambda: manager.free(self.live[:1], after=value),
            lambda: manager.retire(value),
            lambda: allocator.allocate(value),
            lambda: allocator.get_ref_count(value),
        ]
        with pytest.raises(InvalidArgumentError):
            calls[method]()

    @rule(value=st.sampled_from((1.5, float("nan"), "7", None, 2**63, -(2**63) - 1)), method=st.integers(0, 7))
    def bad_id(self, value: Any, method: int) -> None:
        manager = self.manager
        calls: list[Callable[[], object]] = [
            lambda: manager.append([value], [1]),
            lambda: manager.free([value]),
            lambda: manager.admit(value, (1,)),
            lambda: manager.get_page_table(value),
            lambda: manager.block_table([value]),
            lambda: manager.fork(value, []),
            lambda: manager.fork((self.live or [STRANGER])[0], [STRANGER + 1, value]),
            lambda: manager.reorder([value], [0]),
        ]
        with pytest.raises(InvalidArgumentError):
            calls[method]()

    @rule(method=st.integers(0, 9))
    def unknown_id(self, method: int) -> None:
        manager = self.manager
        calls: list[Callable[[], object]] = [
            lambda: manager.get_page_table(STRANGER),
            lambda: manager.seq_length(STRANGER),
            lambda: manager.committed_length(STRANGER),
            lambda: manager.capacity_tokens(STRANGER),
            lambda: manager.row(STRANGER),
            lambda: manager.append_token(STRANGER),
            lambda: manager.free_sequence(STRANGER),
            lambda: manager.fork(STRANGER, []),
            lambda: manager.fork(STRANGER, [STRANGER + 1]),
            lambda: manager.reorder([*self.live, STRANGER], range(len(self.live) + 1)),
        ]
        assert STRANGER not in manager
        with pytest.raises(SequenceStateError):
            calls[method]()

    @rule(data=st.data(), block=st.sampled_from((-1, 10**6, 2**31, 2**63)))
    def unknown_block(self, data: st.DataObject, block: int) -> None:
        """A bad id behind good ones: the good ones must not have been touched."""
        held = [n for n in self.model.pool.in_use if self.model.pool.blocks[n].pins][:1]
        allocator = self.manager.allocator
        method = data.draw(st.sampled_from(("increment_ref", "free", "publish", "unpublish")))
        with pytest.raises(InvalidArgumentError):
            getattr(allocator, method)([*held, block])

    @rule(data=st.data())
    def pin_any(self, data: st.DataObject) -> None:
        """Free blocks among held ones: nobody may pin a block that holds nothing findable."""
        self.pin(data, drawn_blocks(data, self.model.num_blocks))

    @rule(data=st.data())
    def unpin_any(self, data: st.DataObject) -> None:
        """Nearly always too much: the references of page tables and free blocks must withstand it."""
        self.unpin_ids(data, drawn_blocks(data, self.model.num_blocks))

    @precondition(lambda self: self.live)
    @rule()
    def bad_batch(self) -> None:
        with pytest.raises(InvalidArgumentError):
            self.manager.append(self.live, [1] * (len(self.live) + 1))
        with pytest.raises(InvalidArgumentError):
            self.manager.truncate(self.live, [])
        with pytest.raises(InvalidArgumentError):
            self.manager.reorder(self.live, range(len(self.live) - 1))
        with pytest.raises(InvalidArgumentError):
            self.manager.fork(self.live[0], [STRANGER, STRANGER])
        with pytest.raises(SequenceStateError):
            self.manager.fork(self.live[0], [STRANGER, self.live[-1]])
        with pytest.raises(InvalidArgumentError):
            self.manager.append(np.array([self.live]), [1])
