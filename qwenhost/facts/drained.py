"""Services that were stopped while GPUs are partitioned, and have to run again."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from qwenhost.facts.keyed import listing
from qwenhost.facts.registry import parses
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable
from qwenhost.records.source import tree

RECORD = "/run/qwenhost/drained.json"
ANCHOR = "/proc/sys/kernel/ostype"

DRAINED = replace(tree("drained-services", RECORD, ANCHOR), looks_like=rf'\A\s*\{{\s*"(?:{ANCHOR}|{RECORD})')
"""The kernel's name is there on every host: with it alone, nothing is stopped."""


@dataclass(frozen=True)
class Drained:
    """Units, in the order in which they were stopped."""

    units: tuple[str, ...]


@parses(DRAINED)
def drained_services(capture: Capture) -> Drained:
    """Parse the record that `hands/drain.py` keeps while units are stopped."""
    files = listing(capture, ANCHOR)
    if f"{RECORD}!" in files:
        raise Unparsable(f"{RECORD}: {files[f'{RECORD}!']}")
    try:
        record = json.loads(files.get(RECORD, '{"units": []}'))
        return Drained(tuple(str(unit) for unit in record["units"]))
    except (ValueError, KeyError, TypeError) as error:
        raise Unparsable(f"{RECORD} is no record of stopped units") from error
