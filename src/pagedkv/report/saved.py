"""Documents read again from JSON files: only ours are taken, and what is none says what it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NoReturn

from pagedkv.errors import InvalidArgumentError
from pagedkv.report.dispatch import REPORTS
from pagedkv.report.document import SCHEMA, Document
from pagedkv.report.html.page import Page, page_of

_MAKE_ONE = "give what `pagedkv simulate`, `plan` or `reproduce` wrote with --json FILE"
# What a builder of plain data meets in a document that lacks something, or has something else in its place.
MALFORMED = (KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError)
# No run counts or measures so much. Beyond it, what a page makes of a number might be none: a sum, a percentage.
_LARGEST = 1e100


def read_document(file: str) -> Document:
    """Return the document of a file. Errors: InvalidArgumentError for what is no whole document of schema 1."""
    return _read(file)[0]


def read_page(file: str) -> Page:
    """Return the page of a file's document. Errors: as of `read_document`."""
    return _read(file)[1]


def _read(file: str) -> tuple[Document, Page]:
    """A document is whole if all that is ever said of it can be built."""
    document = _marked(file)
    try:
        return document, page_of(document)
    except MALFORMED as error:
        what = f"there is no {error.args[0]!r}" if isinstance(error, KeyError) and error.args else str(error)
        form = f"it is marked as of `pagedkv {document['command']}`, but has not its form"
        raise _none_of_ours(file, f"{form}: {what}") from error


def _marked(file: str) -> Document:
    found = _parsed(file)
    if not isinstance(found, dict) or "schema" not in found or not isinstance(found.get("command"), str):
        raise _none_of_ours(file, "it has no schema and command")
    if found["schema"] != SCHEMA:
        raise _none_of_ours(file, f"its schema is {found['schema']!r}, this version reads {SCHEMA}")
    if found["command"] == "compare":
        raise _none_of_ours(file, "it is a comparison; run `pagedkv compare A.json B.json --report FILE.html`")
    if found["command"] not in REPORTS:
        raise _none_of_ours(file, f"command {found['command']!r} is not known")
    return found


def _parsed(file: str) -> Any:
    try:
        text = Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise _none_of_ours(file, "it is not UTF-8") from error
    except (OSError, ValueError) as error:
        raise InvalidArgumentError(f"{file!r} cannot be read ({error}); {_MAKE_ONE}") from error
    try:
        return json.loads(text, parse_constant=_refuse, parse_float=_float, parse_int=_int)
    except (ValueError, RecursionError) as error:
        raise _none_of_ours(file, f"it is not JSON: {error}") from error


def _float(digits: str) -> float:
    return float(digits) if abs(float(digits)) <= _LARGEST else _refuse(f"{digits[:24]}...")


def _int(digits: str) -> int:
    return int(digits) if abs(int(digits)) <= _LARGEST else _refuse(f"{digits[:24]}...")


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of a result")


def _none_of_ours(file: str, why: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"{file!r} is no result of pagedkv ({why}); {_MAKE_ONE}")
