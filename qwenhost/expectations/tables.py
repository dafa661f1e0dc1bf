"""Read the package's data files strictly: a schema number, known keys only, errors with file and key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any

import yaml

from qwenhost.records.errors import BadData

SCHEMA = 1

LOADER: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml reads ten times as fast, which is a quarter of a second of each run; not every PyYAML has it."""


@cache
def names(folder: str) -> tuple[str, ...]:
    """Return the names of the data files in data/<folder>, without their ending."""
    files = resources.files("qwenhost.data").joinpath(folder).iterdir()
    return tuple(sorted(file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml")))


@cache
def table(path: str) -> Mapping[str, Any]:
    """Return the content of data/<path>; raises BadData for another schema or a key that stands twice."""
    loader = LOADER(_text(path))
    document = loader.get_single_node()
    for node in _mappings(document):
        keys = [key.value for key, _ in node.value]
        twice = [key for key, _ in node.value if keys.count(key.value) > 1]
        if twice:
            raise BadData(f"data/{path}:{twice[1].start_mark.line + 1}: {twice[1].value!r} stands twice")
    raw = loader.construct_document(document) if document else None
    if not isinstance(raw, dict) or raw.get("schema") != SCHEMA:
        raise BadData(f"data/{path}:1: no `schema: {SCHEMA}`")
    return raw


def refuse_unknown(path: str, raw: Mapping[str, Any], known: Iterable[str]) -> None:
    """Raise BadData, with the line, when a mapping of data/<path> has a key that nobody reads."""
    unknown = sorted(set(map(str, raw)) - set(known))
    if unknown:
        line = line_of(path, unknown[0])
        raise BadData(f"data/{path}:{line}: unknown key {unknown[0]!r}", hint=f"known: {', '.join(sorted(known))}")


def figures(path: str, names: Iterable[str], others: Iterable[str] = ()) -> dict[str, Any]:
    """Return the values of a table of rows {value, source}; raises BadData for a key that is not among these."""
    raw = table(path)
    refuse_unknown(path, raw, ("schema", *names, *others))
    return {name: raw[name]["value"] for name in names}


def line_of(path: str, key: str) -> int:
    """Return the first line of data/<path> that has this key, 1 for none."""
    keys = [found for node in _mappings(yaml.compose(_text(path), Loader=LOADER)) for found, _ in node.value]
    return next((found.start_mark.line + 1 for found in keys if found.value == key), 1)


def _text(path: str) -> str:
    return resources.files("qwenhost.data").joinpath(path).read_text(encoding="utf-8")


def _mappings(node: yaml.Node | None) -> Iterator[yaml.MappingNode]:
    """Yield every mapping of a document, from the outside in."""
    if isinstance(node, yaml.MappingNode):
        yield node
        for _, value in node.value:
            yield from _mappings(value)
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _mappings(item)
