"""Read the package's data files strictly: a schema number, known keys only, errors with file and key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from typing import Any

import yaml

from qwenhost.records.errors import BadData

SCHEMA = 1


@cache
def names(folder: str) -> tuple[str, ...]:
    """Return the names of the data files in data/<folder>, without their ending."""
    files = resources.files("qwenhost.data").joinpath(folder).iterdir()
    return tuple(sorted(file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml")))


@cache
def table(path: str) -> Mapping[str, Any]:
    """Return the content of data/<path>; raises BadData for another schema."""
    text = resources.files("qwenhost.data").joinpath(path).read_text(encoding="utf-8")
    raw = yaml.safe_load(text)
    if not isinstance(raw, dict) or raw.get("schema") != SCHEMA:
        raise BadData(f"data/{path}: no `schema: {SCHEMA}`")
    return raw


def refuse_unknown(path: str, raw: Mapping[str, Any], known: Iterable[str]) -> None:
    """Raise BadData when a mapping has a key that nobody reads."""
    unknown = sorted(set(map(str, raw)) - set(known))
    if unknown:
        raise BadData(f"data/{path}: unknown key {unknown[0]!r}", hint=f"known: {', '.join(sorted(known))}")
