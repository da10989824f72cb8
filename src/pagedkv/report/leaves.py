"""Nested tables as flat ones."""

from __future__ import annotations

from typing import Any


def leaves(tree: Any, prefix: str = "") -> dict[str, Any]:
    """Return the leaves of nested tables by their dotted names; lists count as leaves. Pure."""
    if not isinstance(tree, dict):
        return {prefix: tree} if prefix else {}
    found: dict[str, Any] = {}
    for key, value in tree.items():
        found |= leaves(value, f"{prefix}.{key}" if prefix else str(key))
    return found
