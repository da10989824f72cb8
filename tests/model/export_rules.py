"""Rules of the state machine for exports: fresh arrays, the caller's own, wider and longer ones, other padding."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import rule
from hypothesis.strategies import DataObject

from .drawing import drawn_batch, drawn_form, lengths, maybe
from .exports import default_width, model_block_table, model_csr, model_slot_mapping, padding_block
from .harness import Harness
from .refusal import bad_argument


class ExportRules(Harness):
    """block_table, slot_mapping, csr, seq_lens, table_width. None of them changes anything."""

    @rule(data=st.data(), extra=maybe(st.integers(-1, 2)), pad=maybe(st.sampled_from((-1, 0))))
    def fresh_block_table(self, data: DataObject, extra: int | None, pad: int | None) -> None:
        ids = drawn_batch(data, self.live)
        needed = self._widest(ids)
        width = None if extra is None else max(0, needed + extra)
        outcome = self.both(
            lambda: self._block_table(ids, needed if width is None else width, None, pad),
            lambda: self.manager.block_table(drawn_form(data, ids, "int64"), width=width, pad=pad),
        )
        if outcome.error is None:
            want, table = outcome.value
            assert table.tolist() == want
            assert table.dtype == np.int32
            assert table.flags.c_contiguous
            assert table.ndim == 2

    @rule(data=st.data(), extra_rows=st.integers(-1, 2), extra=st.integers(-1, 2), pad=maybe(st.just(-1)))
    def own_block_table(self, data: DataObject, extra_rows: int, extra: int, pad: int | None) -> None:
        ids = self._batch_for(data, extra_rows)
        rows, width = max(0, len(ids) + extra_rows), max(0, self._widest(ids) + extra)
        out = np.full((rows, width), 77, np.int32)
        outcome = self.both(
            lambda: self._block_table(ids, width, rows, pad),
            lambda: self.manager.block_table(ids, out=out, pad=pad),
        )
        if outcome.error is None:
            assert out.tolist() == outcome.value[0]
            assert outcome.value[1] is out
        else:
            assert (out == 77).all(), "a refused export writes nothing"

    def _batch_for(self, data: DataObject, extra: int | None) -> list[int]:
        """No stranger in a batch whose target is too small: one fault a call, so that the error is certain."""
        ids = drawn_batch(data, self.live)
        return ids if extra is None or extra >= 0 else [s for s in ids if s in self.model.sequences]

    def _widest(self, ids: Sequence[int]) -> int:
        tables = [self.model.sequences[s].table for s in ids if s in self.model.sequences]
        return max((len(table) for table in tables), default=0)

    def _block_table(self, ids: Sequence[int], width: int, rows: int | None, pad: int | None) -> list[list[int]]:
        self.model.batch(ids)
        if width < self._widest(ids) or (rows is not None and rows < len(ids)):
            raise bad_argument()
        return model_block_table(self.model, ids, width=width, rows=rows, pad=pad)

    @rule(data=st.data(), ranges=st.booleans(), extra=maybe(st.integers(-1, 3)))
    def slot_mapping(self, data: DataObject, ranges: bool, extra: int | None) -> None:
        ids = drawn_batch(data, self.live)
        starts, stops = self._drawn_ranges(data, ids) if ranges else (None, None)
        total = self._slot_count(ids, starts, stops)
        out = None if extra is None else np.full(max(0, total + extra), 77, np.int64)
        outcome = self.both(
            lambda: self._slots(ids, starts, stops, None if out is None else len(out)),
            lambda: self.manager.slot_mapping(ids, starts=starts, stops=stops, out=out),
        )
        if outcome.error is None:
            want, slots = outcome.value
            assert slots.tolist() == want
            assert slots.dtype == np.int64
            assert out is None or slots is out
        else:
            assert out is None or (out == 77).all()

    def _drawn_ranges(self, data: DataObject, ids: Sequence[int]) -> tuple[list[int], list[int]]:
        """Mostly legal ranges up to the capacity, now and then one that ends beyond it or before it starts."""
        starts, stops = [], []
        for seq_id in ids:
            sequence = self.model.sequences.get(seq_id)
            capacity = sequence.capacity if sequence else 4
            start = data.draw(lengths(capacity))
            starts.append(start)
            stops.append(data.draw(st.integers(max(0, start - 1), capacity + 1)))
        return starts, stops

    def _slot_count(self, ids: Sequence[int], starts: list[int] | None, stops: list[int] | None) -> int:
        if starts is None or stops is None:
            return sum(self.model.sequences[s].length for s in ids if s in self.model.sequences)
        return sum(max(0, stop - start) for start, stop in zip(starts, stops, strict=True))

    def _slots(
        self, ids: Sequence[int], starts: list[int] | None, stops: list[int] | None, total: int | None
    ) -> list[int]:
        batch = self.model.batch(ids)
        if starts is not None and stops is not None:
            for sequence, start, stop in zip(batch, starts, stops, strict=True):
                if not 0 <= start <= stop <= sequence.capacity:
                    raise bad_argument()
        if total is not None and total < self._slot_count(ids, starts, stops):
            raise bad_argument()
        return model_slot_mapping(self.model, ids, starts=starts, stops=stops, total=total)

    @rule(data=st.data(), extra=maybe(st.integers(-1, 2)))
    def csr(self, data: DataObject, extra: int | None) -> None:
        ids = self._batch_for(data, extra)
        valid = [seq_id for seq_id in ids if seq_id in self.model.sequences]
        pages, rows = len(model_csr(self.model, valid)[1]), len(ids)
        out = None
        if extra is not None:
            sizes = (rows + 1 + extra, pages + extra, rows + extra)
            indptr, indices, last = (np.full(max(0, size), 77, np.int32) for size in sizes)
            out = (indptr, indices, last)
        outcome = self.both(
            lambda: self._csr(ids, None if out is None else [len(part) for part in out]),
            lambda: self.manager.csr(ids, out=out),
        )
        if outcome.error is None:
            want, tables = outcome.value
            assert (tables.indptr.tolist(), tables.indices.tolist(), tables.last_page_len.tolist()) == want
            assert {tables.indptr.dtype, tables.indices.dtype, tables.last_page_len.dtype} == {np.dtype(np.int32)}
        elif out is not None:
            assert all((part == 77).all() for part in out)

    def _csr(self, ids: Sequence[int], sizes: list[int] | None) -> tuple[list[int], list[int], list[int]]:
        """Longer buffers describe a padded batch: rows without pages, and a readable block id."""
        self.model.batch(ids)
        parts = model_csr(self.model, ids)
        if sizes is None:
            return parts
        if any(size < len(part) for part, size in zip(parts, sizes, strict=True)):
            raise bad_argument()
        padding = (len(parts[1]), padding_block(self.model), 0)
        indptr, indices, last = (
            part + [filler] * (size - len(part)) for part, size, filler in zip(parts, sizes, padding, strict=True)
        )
        return indptr, indices, last

    @rule(data=st.data(), extra=maybe(st.integers(-1, 2)))
    def seq_lens(self, data: DataObject, extra: int | None) -> None:
        ids = self._batch_for(data, extra)
        out = None if extra is None else np.full(max(0, len(ids) + extra), 77, np.int32)
        outcome = self.both(
            lambda: self._seq_lens(ids, None if out is None else len(out)),
            lambda: self.manager.seq_lens(ids, out=out),
        )
        if outcome.error is None:
            want, got = outcome.value
            assert got.tolist() == want
            assert got.dtype == np.int32
        else:
            assert out is None or (out == 77).all()

    def _seq_lens(self, ids: Sequence[int], size: int | None) -> list[int]:
        batch = self.model.batch(ids)
        if size is not None and size < len(ids):
            raise bad_argument()
        return [sequence.length for sequence in batch] + [0] * ((size or len(ids)) - len(ids))

    @rule(multiple_of=st.integers(1, 5))
    def table_width(self, multiple_of: int) -> None:
        assert self.manager.table_width(multiple_of) == default_width(self.model, multiple_of)
