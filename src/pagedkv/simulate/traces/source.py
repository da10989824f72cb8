"""The bytes of a trace file, unpacked and within bounds, as the readers want them: chunks of whole lines, or one piece.

A packed file may unpack to UNPACKED_BYTES + UNPACKED_FACTOR times its own size: real traces are packed 3 to 20 fold,
and what unpacks without end must not run without end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

from pagedkv.simulate.traces.rows import TraceRows

CHUNK = 1 << 16  # bytes a read: a damaged row sends its chunk, not the file, through the careful reader
LONGEST_LINE = 1 << 20  # bytes; a binary file may have no line end at all, and must not be kept whole
LARGEST_DOCUMENT = 1 << 28  # bytes of a file that is read as one JSON document
UNPACKED_BYTES = 1 << 26
UNPACKED_FACTOR = 200

_BOM = b"\xef\xbb\xbf"


class TraceSource:
    """One file, read once. packed_bytes: the file's size if it is packed, None if it is not.

    Errors: TraceError beyond the bounds above. `chunks` and `document` start at the file's start; use one.
    """

    def __init__(self, stream: IO[bytes], rows: TraceRows, packed_bytes: int | None = None) -> None:
        self._stream = stream
        self._rows = rows
        self._packed_bytes = packed_bytes
        self._unpacked = 0
        self._head = self._first_bytes()

    @property
    def first_line(self) -> str:
        """The first line without a byte order mark, its end included; "" for an empty file."""
        line, end, _ = self._head.partition(b"\n")
        return (line + end).decode("utf-8", "surrogateescape")

    def chunks(self) -> Iterator[bytes]:
        """Yield the file in pieces of whole lines, each ended by a line feed. Lines are cut to LONGEST_LINE."""
        kept, block = b"", self._head
        self._head = b""
        while block:
            cut = block.rfind(b"\n") + 1
            if cut:
                yield _shortened(kept + block[:cut])
                kept = block[cut:]
            elif len(kept) < LONGEST_LINE:
                kept += block
            block = self._read(CHUNK)
        if kept:
            yield kept[:LONGEST_LINE] + b"\n"

    def document(self) -> bytes:
        """Return the whole file. Errors: TraceError for more than LARGEST_DOCUMENT bytes."""
        parts, size = [self._head], len(self._head)
        self._head = b""
        while size <= LARGEST_DOCUMENT and (block := self._read(CHUNK)):
            parts.append(block)
            size += len(block)
        if size > LARGEST_DOCUMENT:
            reason = f"is one document of more than {LARGEST_DOCUMENT >> 20} MiB; split it into sessions"
            raise self._rows.error(None, None, reason)
        return b"".join(parts)

    def _first_bytes(self) -> bytes:
        head = self._read(CHUNK).removeprefix(_BOM)
        while b"\n" not in head and len(head) < LONGEST_LINE and (block := self._read(CHUNK)):
            head += block
        return head

    def _read(self, size: int) -> bytes:
        block = self._stream.read(size)
        self._unpacked += len(block)
        if self._packed_bytes is not None:
            limit = UNPACKED_BYTES + UNPACKED_FACTOR * self._packed_bytes
            if self._unpacked > limit:
                reason = f"unpacks to more than {limit} bytes, 64 MiB and 200 times its size; unpack it yourself first"
                raise self._rows.error(None, None, reason)
        return block


def lines_of(chunk: bytes) -> list[str]:
    """Return the lines of a chunk, without their ends; undecodable bytes become lone surrogates, so that a damaged row
    is one bad row."""
    return chunk.decode("utf-8", "surrogateescape").split("\n")[:-1]


def _shortened(chunk: bytes) -> bytes:
    """Cut the first line, the only one that can be longer than a read, to LONGEST_LINE."""
    end = chunk.index(b"\n")
    return chunk if end <= LONGEST_LINE else chunk[:LONGEST_LINE] + chunk[end:]
