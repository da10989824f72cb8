"""Two documents side by side: what differs in configuration, and every figure of both with difference and ratio."""

from __future__ import annotations

from math import isfinite
from pathlib import PurePath
from typing import Any

from pagedkv.errors import InvalidArgumentError
from pagedkv.report.document import SCHEMA, Document, versions
from pagedkv.report.leaves import leaves
from pagedkv.report.systems import system_name

# Parts of a document that hold figures, by command; what else is there is configuration, words, or history.
_FIGURES = {
    "simulate": ("figures", "time.figures"),
    "plan": ("memory", "kv", "pool", "simulation.figures"),
    "reproduce": (),
}
_CONFIG = {
    "simulate": ("config", "device.name", "trace.file", "time.model", "versions"),
    "plan": ("config", "gpu", "model", "versions"),
    "reproduce": ("figure", "config", "versions"),
}


def compare_documents(documents: tuple[Document, Document], files: tuple[str, str]) -> Document:
    """Return the comparison's document. Pure. Errors: InvalidArgumentError for results of two different commands."""
    a, b = documents
    if a["command"] != b["command"]:
        raise InvalidArgumentError(
            f"{files[0]} is of `pagedkv {a['command']}`, {files[1]} of `pagedkv {b['command']}`; give two results of "
            "one command"
        )
    figures = _figures(documents)
    return {
        "schema": SCHEMA,
        "command": "compare",
        "outcome": "PASS",
        "versions": versions(),
        "of": a["command"],
        "a": _facts(a, files[0]),
        "b": _facts(b, files[1]),
        "config": _differences(documents),
        "figures": figures,
        "failures": [],
        "notes": _notes(documents),
    }


def _facts(document: Document, file: str) -> dict[str, Any]:
    return {
        "file": file,
        "name": PurePath(file).name,
        "outcome": document["outcome"],
        "command_line": document.get("command_line"),
        "pagedkv": document["versions"]["pagedkv"],
    }


def _differences(documents: tuple[Document, Document]) -> list[dict[str, Any]]:
    """Return the configuration that is not the same, in the first document's order."""
    a, b = (_leaves(document, _CONFIG[document["command"]]) for document in documents)
    return [
        {"key": key, "a": a.get(key), "b": b.get(key)}
        for key in (*a, *(key for key in b if key not in a))
        if a.get(key) != b.get(key)
    ]


def _figures(documents: tuple[Document, Document]) -> list[dict[str, Any]]:
    a, b = (_numbers(document) for document in documents)
    return [_compared(key, a.get(key), b.get(key)) for key in (*a, *(key for key in b if key not in a))]


def _compared(key: str, a: float | None, b: float | None) -> dict[str, Any]:
    """difference: b - a; ratio: b / a. None where one is missing, or there is no ratio."""
    difference = ratio = None
    if a is not None and b is not None:
        difference = b - a
        if a and isfinite(quotient := b / a):  # a may be so small that there is none
            ratio = quotient
    return {"key": key, "a": a, "b": b, "difference": difference, "ratio": ratio}


def _numbers(document: Document) -> dict[str, int | float | None]:
    """Return the numbers of a document: of its run, of its systems, of its sequences' lengths, of a figure's bars."""
    found = _leaves(document, _FIGURES[document["command"]])
    for system in document.get("systems") or ():
        found |= leaves(system["figures"], f"systems.{system_name(system)}")
    for fit in document.get("sequences") or ():
        found |= leaves({key: fit[key] for key in fit if key != "length"}, f"sequences.{fit['length']}")
    for bar in document.get("bars") or ():
        found[f"{bar['group']}: {bar['label']}"] = bar["ours"]
    return {key: value for key, value in found.items() if _is_number(value)}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _leaves(document: Document, parts: tuple[str, ...]) -> dict[str, Any]:
    """Return the leaves of some parts; only the last word of a part's own name is kept, and none of the first one's."""
    found: dict[str, Any] = {}
    for place, part in enumerate(parts):
        tree: Any = document
        for word in part.split("."):
            tree = tree.get(word) if isinstance(tree, dict) else None
        found |= leaves(tree, "" if place == 0 and isinstance(tree, dict) else part)
    return found


def _notes(documents: tuple[Document, Document]) -> list[str]:
    notes = []
    for name, document in zip("AB", documents, strict=True):
        if document["outcome"] != "PASS":
            notes.append(f"{name} ended with {document['outcome']}: its figures may be of a part of the load")
    return notes
