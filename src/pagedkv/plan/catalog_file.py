"""Reading a catalog's file: tables [[gpu]] and [[model]] in TOML, or an object with lists "gpu" and "model" in JSON.

A GPU has name, memory ("80GiB" or bytes), and may have bandwidth_gb_per_s, tflops_16bit, aliases and memory_source,
bandwidth_source, compute_source. A model has name, config (the fields of its config.json, or the path of one, seen from
the file's folder), and may have parameters, parameters_source, source and aliases.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from pagedkv.arguments import INT64_MAX, finite_number, whole_number
from pagedkv.errors import InvalidArgumentError
from pagedkv.layout import parse_bytes
from pagedkv.plan.catalog import Gpu, Model

_GPU_KEYS = (
    "name", "aliases", "memory", "memory_source", "bandwidth_gb_per_s", "bandwidth_source", "tflops_16bit",
    "compute_source",
)  # fmt: skip
_MODEL_KEYS = ("name", "aliases", "config", "source", "parameters", "parameters_source")


def read_entries(file: str | PathLike[str]) -> list[Gpu | Model]:
    """Return the entries of a file in order, GPUs first. Raises InvalidArgumentError, which names file and entry."""
    path = Path(file)
    content = _content(path)
    if strange := sorted(set(content) - {"gpu", "model"}):
        raise InvalidArgumentError(f"catalog {str(path)!r} has {strange[0]!r}; it may have gpu and model, two lists")
    entries: list[Gpu | Model] = []
    for kind, make, keys in (("gpu", _gpu, _GPU_KEYS), ("model", _model, _MODEL_KEYS)):
        listed = content.get(kind, [])
        if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
            raise InvalidArgumentError(f"catalog {str(path)!r}: {kind} is no list of tables; write [[{kind}]]")
        for number, fields in enumerate(listed, start=1):
            try:
                _check_keys(fields, keys)
                entries.append(make(fields, path))
            except InvalidArgumentError as error:
                raise InvalidArgumentError(f"catalog {str(path)!r}, {kind} {number}: {error}") from None
    return entries


def _content(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
        read = json.loads(text) if path.suffix.lower() == ".json" else tomllib.loads(text)
    except OSError as error:
        raise InvalidArgumentError(
            f"catalog {str(path)!r} cannot be read ({error.strerror}); give a file in TOML or JSON"
        ) from None
    except (RecursionError, ValueError) as error:  # what is no TOML or JSON, no UTF-8, or has a NUL in its name
        raise InvalidArgumentError(
            f"catalog {str(path)!r} is no TOML, or, if its name ends in .json, no JSON ({error}); mend it"
        ) from None
    if not isinstance(read, dict):
        raise InvalidArgumentError(f"catalog {str(path)!r} holds a {type(read).__name__}; give lists gpu and model")
    return read


def _gpu(fields: Mapping[str, Any], path: Path) -> Gpu:
    return Gpu(
        name=_text(fields, "name"),
        memory_bytes=parse_bytes(fields["memory"]),
        memory_source=_text(fields, "memory_source", otherwise=path.name),
        bandwidth=_rate(fields, "bandwidth_gb_per_s", 1e9),
        bandwidth_source=_source(fields, "bandwidth_source", "bandwidth_gb_per_s", path),
        flops=_rate(fields, "tflops_16bit", 1e12),
        compute_source=_source(fields, "compute_source", "tflops_16bit", path),
        aliases=_aliases(fields),
    )


def _model(fields: Mapping[str, Any], path: Path) -> Model:
    config, source = fields["config"], path.name
    if isinstance(config, str):
        # Read here, so that a wrong path is the catalog's fault and not the plan's.
        from pagedkv.model_config import read_config

        source = str(path.parent / config)
        config = read_config(source)
    if not isinstance(config, Mapping):
        raise InvalidArgumentError(f"config is a {type(config).__name__}; give a config.json's fields, or its path")
    parameters = fields.get("parameters")
    if parameters is not None:
        parameters = whole_number(parameters, "parameters", minimum=1, maximum=INT64_MAX)
    return Model(
        name=_text(fields, "name"),
        config=config,
        source=_text(fields, "source", otherwise=source),
        parameters=parameters,
        parameters_source=_source(fields, "parameters_source", "parameters", path),
        aliases=_aliases(fields),
    )


def _check_keys(fields: Mapping[str, Any], known: tuple[str, ...]) -> None:
    needed = ("name", "memory") if "memory" in known else ("name", "config")
    if missing := [key for key in needed if key not in fields]:
        raise InvalidArgumentError(f"{missing[0]} is missing; give {' and '.join(needed)}")
    if strange := sorted(set(fields) - set(known)):
        raise InvalidArgumentError(f"{strange[0]!r} is unknown; known are {', '.join(known)}")


def _text(fields: Mapping[str, Any], key: str, otherwise: str | None = None) -> str:
    value = fields.get(key, otherwise)
    if not isinstance(value, str) or not value.strip():
        raise InvalidArgumentError(f"{key} is {value!r}; give a text")
    return value


def _source(fields: Mapping[str, Any], key: str, figure: str, path: Path) -> str | None:
    """The source of a figure: the file itself, if it does not say; None where there is no figure."""
    return _text(fields, key, otherwise=path.name) if fields.get(figure) is not None else None


def _rate(fields: Mapping[str, Any], key: str, unit: float) -> float | None:
    if (value := fields.get(key)) is None:
        return None
    number = finite_number(value, key)
    if number <= 0:
        raise InvalidArgumentError(f"{key} is {value!r}; give a number above 0, or leave it out")
    return number * unit


def _aliases(fields: Mapping[str, Any]) -> tuple[str, ...]:
    names = fields.get("aliases", [])
    if not isinstance(names, list) or not all(isinstance(name, str) and name.strip() for name in names):
        raise InvalidArgumentError(f"aliases is {names!r}; give a list of names")
    return tuple(names)
