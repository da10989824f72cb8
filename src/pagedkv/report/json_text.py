"""A document as JSON text: two spaces a level, and a list with numbers on one line, however long it is."""

from __future__ import annotations

import json
from typing import Any


def json_text(value: Any) -> str:
    """Return the text, without a final newline. Keys are strings. Errors: ValueError for NaN and infinity."""
    return _text(value, "\n")


def _text(value: Any, newline: str) -> str:
    """Return the text of a value whose lines are separated by `newline`, which holds the indent."""
    inner = newline + "  "
    if isinstance(value, dict) and value:
        items = (f"{json.dumps(key)}: {_text(item, inner)}" for key, item in value.items())
        return "{" + inner + f",{inner}".join(items) + newline + "}"
    if isinstance(value, (list, tuple)) and value and not _is_row(value):
        return "[" + inner + f",{inner}".join(_text(item, inner) for item in value) + newline + "]"
    return json.dumps(value, allow_nan=False)


def _is_row(items: list[Any] | tuple[Any, ...]) -> bool:
    """Whether a list has numbers and nothing in it has items of its own."""
    kinds = set(map(type, items))
    return not kinds.isdisjoint((int, float)) and kinds.isdisjoint((dict, list, tuple))
