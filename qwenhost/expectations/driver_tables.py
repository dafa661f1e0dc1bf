"""The driver's Xid table, known bad driver ranges and VBIOS generations, read once from data/."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from qwenhost.expectations.tables import table
from qwenhost.records.errors import BadData
from qwenhost.records.finding import Remedy, Verdict


@dataclass(frozen=True)
class Xid:
    """What one Xid means. `told_by`: check that tells its story; empty for gpu.xid itself."""

    number: int
    name: str
    meaning: str
    remedy: Remedy
    verdict: Verdict
    told_by: str = ""


@dataclass(frozen=True)
class BadDriver:
    """Versions from `start` on and below `end` have a known fault."""

    start: str
    end: str
    verdict: Verdict
    why: str
    source: str


@dataclass(frozen=True)
class VbiosGeneration:
    """All VBIOS versions of one chip start alike."""

    chip: str
    pci_device_ids: tuple[str, ...]
    prefix: str
    source: str


@cache
def xids() -> Mapping[int, Xid]:
    """Return the Xid table; raises BadData."""
    raw = _table("xids.yaml", {"schema", "source", "actions", "xids"})
    actions = {
        name: _record("xids.yaml", f"actions.{name}", Remedy, {"kind": row["remedy"], "text": row["text"]})
        for name, row in raw["actions"].items()
    }
    return {number: _xid(number, row, actions) for number, row in raw["xids"].items()}


def _xid(number: int, row: dict[str, Any], actions: Mapping[str, Remedy]) -> Xid:
    fields = dict(row)
    action = fields.pop("action", None)
    if action not in actions:
        raise BadData(f"xids.yaml: xids.{number}: unknown action {action!r}")
    fields["verdict"] = Verdict(fields["verdict"])
    record: Xid = _record(
        "xids.yaml", f"xids.{number}", Xid, {"number": number, "remedy": actions[action], **fields}
    )
    return record


def xid(number: int) -> Xid:
    """Return the meaning of an Xid; one that the table lacks is worth a warning."""
    unknown = Remedy("hand", text="Look it up in NVIDIA's Xid catalog.")
    return xids().get(number) or Xid(number, "", "not in this version's table", unknown, Verdict.WARN)


@cache
def known_bad() -> tuple[BadDriver, ...]:
    """Return the driver ranges with a known fault; raises BadData."""
    rows = _table("drivers.yaml", {"schema", "known_bad", "vbios"})["known_bad"]
    return tuple(
        BadDriver(row["from"], row["before"], Verdict(row["verdict"]), row["why"], row["source"]) for row in rows
    )


@cache
def vbios_generations() -> tuple[VbiosGeneration, ...]:
    """Return how VBIOS versions start, by chip; raises BadData."""
    rows = _table("drivers.yaml", {"schema", "known_bad", "vbios"})["vbios"]
    return tuple(
        VbiosGeneration(row["chip"], tuple(row["pci_device_ids"]), row["prefix"], row["source"]) for row in rows
    )


def _table(name: str, keys: set[str]) -> Mapping[str, Any]:
    raw = table(name)
    if set(raw) != keys:
        raise BadData(f"{name}: expected the keys {', '.join(sorted(keys))}")
    return raw


def _record(file: str, key: str, kind: type[Any], fields: dict[str, Any]) -> Any:
    try:
        return kind(**fields)
    except TypeError as error:
        raise BadData(f"{file}: {key}: {error}") from error
