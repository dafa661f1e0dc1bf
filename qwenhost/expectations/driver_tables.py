"""The driver's Xid and SXid tables, known bad driver ranges and VBIOS generations, read once from data/."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from qwenhost.expectations.tables import table
from qwenhost.records.errors import BadData
from qwenhost.records.finding import Remedy, Verdict


@dataclass(frozen=True)
class Xid:
    """What one Xid means. `told_by`: check that tells its story; empty for gpu.xid itself.

    `follows`: it is mostly a consequence of another one.
    """

    number: int
    name: str
    meaning: str
    remedy: Remedy
    verdict: Verdict
    told_by: str = ""
    follows: bool = False


@dataclass(frozen=True)
class RecoveryAction:
    """What the driver may ask for: `words`, in lower case, of which one stands in its line."""

    words: tuple[str, ...]
    remedy: Remedy


@dataclass(frozen=True)
class SXid:
    """What one error of an NVSwitch means. `repeated`: the verdict of one that came more than once."""

    meaning: str
    remedy: Remedy
    verdict: Verdict
    repeated: Verdict


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
    raw = _xid_file()
    actions = {name: _remedy("xids.yaml", f"actions.{name}", row) for name, row in raw["actions"].items()}
    rows = {number: row for group in raw["groups"] for number, row in group["xids"].items()}
    unused = {key: value for key, value in raw["unused"].items() if key != "numbers"}
    rows |= {number: {"name": "", **unused} for number in raw["unused"]["numbers"]}
    return {number: _xid(number, row, actions) for number, row in sorted(rows.items())}


def _xid_file() -> Mapping[str, Any]:
    keys = {"schema", "actions", "recovery_actions", "recovery_source", "groups", "unused", "unused_source"}
    raw = _table("xids.yaml", keys)
    for number, group in enumerate(raw["groups"]):
        if set(group) != {"source", "xids"}:
            raise BadData(f"xids.yaml: groups[{number}]: expected the keys source, xids")
    return raw


def _xid(number: int, row: dict[str, Any], actions: Mapping[str, Remedy]) -> Xid:
    fields = dict(row)
    action = fields.pop("action", None)
    if action not in actions:
        raise BadData(f"xids.yaml: xids.{number}: unknown action {action!r}")
    fields |= {
        "number": number,
        "remedy": actions[action],
        "verdict": Verdict(fields["verdict"]),
        "follows": action == "see-others",
    }
    record: Xid = _record("xids.yaml", f"xids.{number}", Xid, fields)
    return record


def xid(number: int) -> Xid:
    """Return the meaning of an Xid; one that the table lacks is worth a warning."""
    unknown = Remedy("hand", text="Look it up in NVIDIA's Xid catalog.")
    return xids().get(number) or Xid(number, "", "not in this version's table", unknown, Verdict.WARN)


@cache
def recovery_actions() -> tuple[RecoveryAction, ...]:
    """Return what Xid 154 may ask for, most drastic first; raises BadData."""
    rows = _xid_file()["recovery_actions"]
    return tuple(
        RecoveryAction(
            tuple(row["words"]),
            _remedy("xids.yaml", "recovery_actions", {key: row[key] for key in row if key != "words"}),
        )
        for row in rows
    )


def recovery(line: str) -> Remedy | None:
    """Return what to do after a line such as "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset
    Required)"; None for an action that the table lacks.
    """
    asked = line.lower().rpartition(" to ")[2]
    return next((row.remedy for row in recovery_actions() if any(word in asked for word in row.words)), None)


@cache
def sxids() -> Mapping[int, SXid]:
    """Return the table of NVSwitch errors; raises BadData."""
    raw = _table("sxids.yaml", {"schema", "source", "classes"})
    found: dict[int, SXid] = {}
    for name, row in raw["classes"].items():
        fields = dict(row)
        numbers, verdict = fields.pop("sxids"), Verdict(fields.pop("verdict"))
        repeated = Verdict(fields.pop("repeated", verdict))
        remedy = _remedy("sxids.yaml", f"classes.{name}", fields)
        found |= {number: SXid(meaning, remedy, verdict, repeated) for number, meaning in numbers.items()}
    return found


def sxid(number: int, line: str) -> SXid:
    """Return the meaning of an NVSwitch error. The word of its own line, fatal or non-fatal, has the last say."""
    unknown = Remedy("hand", text="Look it up in the Fabric Manager user guide, appendix D.")
    meaning = sxids().get(number) or SXid("not in this version's table", unknown, Verdict.WARN, Verdict.WARN)
    graded = re.search(r"\b(non-)?fatal\b", line, re.IGNORECASE)
    if graded and bool(graded[1]) == (meaning.verdict is Verdict.FAIL):
        verdict = Verdict.WARN if graded[1] else Verdict.FAIL
        return replace(meaning, verdict=verdict, repeated=verdict)
    return meaning


def _remedy(file: str, key: str, row: Mapping[str, Any]) -> Remedy:
    fields = dict(row)
    record: Remedy = _record(file, key, Remedy, {"kind": fields.pop("remedy", "none"), **fields})
    return record


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
