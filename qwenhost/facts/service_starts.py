"""Since when the fabric manager and the programs that need its fabric run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from qwenhost.facts.fabric import UNIT
from qwenhost.facts.registry import parses
from qwenhost.facts.vllm import UNITS, shown_units
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable


@dataclass(frozen=True)
class FabricManagerStart:
    """`started_seconds` after boot; `restarts`: how often systemd had to start it again."""

    started_seconds: float
    restarts: int


@dataclass(frozen=True)
class VllmStarts:
    """Running instance -> seconds after boot at which it was started."""

    started_seconds: Mapping[str, float]


@parses(UNIT)
def manager_start(capture: Capture) -> FabricManagerStart:
    """Parse `systemctl show`; raises Unparsable where it does not tell, or the unit never ran."""
    fields = dict(re.findall(r"^(NRestarts|ActiveEnterTimestampMonotonic)=(\d+)$", capture.text, re.MULTILINE))
    started = int(fields.get("ActiveEnterTimestampMonotonic", 0))
    if not started or "NRestarts" not in fields:
        raise Unparsable("systemd does not tell since when it runs")
    return FabricManagerStart(started / 1e6, int(fields["NRestarts"]))


@parses(UNITS)
def vllm_starts(capture: Capture) -> VllmStarts:
    """Parse the instances that systemd shows as active."""
    return VllmStarts(
        {
            name: int(fields["ActiveEnterTimestampMonotonic"]) / 1e6
            for name, fields in shown_units(capture)
            if fields["ActiveState"] == "active" and fields.get("ActiveEnterTimestampMonotonic", "0") != "0"
        }
    )
