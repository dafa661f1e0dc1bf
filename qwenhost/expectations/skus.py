"""Boards by name and by PCI device id."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any

from qwenhost.expectations.tables import line_of, names, refuse_unknown, table
from qwenhost.records.desired import Sku
from qwenhost.records.errors import BadData

FIELDS = {field.name for field in fields(Sku)} - {"name", "origin"}
META = {"schema", "extends", "abstract", "sources"}
NAMING = {"product", "form", "family", "mig"}
"""Keys that hold names, not figures, and need no source."""


@cache
def skus() -> Mapping[str, Sku]:
    """Return every board by name."""
    found = {name: _sku(name) for name in names("skus") if not table(f"skus/{name}.yaml").get("abstract")}
    _refuse_shared_ids(found)
    return found


def by_device_id(pci_device_id: str) -> Sku | None:
    """Return the board with this PCI device id (four hexadecimal digits), if it is known."""
    wanted = pci_device_id.lower()
    return next((sku for sku in skus().values() if wanted in sku.pci_device_ids), None)


def _sku(name: str) -> Sku:
    raw = values(name)
    raw["pci_device_ids"] = tuple(raw["pci_device_ids"])
    raw["nvswitch_at_gpus"] = tuple(raw.get("nvswitch_at_gpus", ()))
    return Sku(name=name, origin=f"skus/{name}.yaml", **raw)


def values(name: str) -> dict[str, Any]:
    """Return a board's values with those of the file that it extends (one level deep), checked."""
    path = f"skus/{name}.yaml"
    raw = dict(table(path))
    refuse_unknown(path, raw, FIELDS | META)
    parent = dict(table(f"skus/{raw['extends']}.yaml")) if "extends" in raw else {}
    if "extends" in parent:
        raise BadData(f"data/{path}: `extends` goes one level deep, and {raw['extends']} extends another")
    sources = {**parent.get("sources", {}), **raw.get("sources", {})}
    merged = {key: value for key, value in {**parent, **raw}.items() if key in FIELDS}
    unsourced = sorted(set(merged) - set(sources) - NAMING)
    if unsourced:
        raise BadData(f"data/{path}:{line_of(path, unsourced[0])}: no source for {unsourced[0]}")
    return merged


def _refuse_shared_ids(found: Mapping[str, Sku]) -> None:
    owners: dict[str, str] = {}
    for sku in found.values():
        for device_id in sku.pci_device_ids:
            if device_id in owners:
                raise BadData(f"data/skus: {owners[device_id]} and {sku.name} both have the id {device_id}")
            owners[device_id] = sku.name
