"""How long the host has been up."""

from __future__ import annotations

import re
from dataclasses import dataclass

from qwenhost.facts.registry import parses
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable
from qwenhost.records.source import file, recorded

UPTIME = file("uptime", "/proc/uptime", looks_like=r"\A\d+\.\d\d \d+\.\d\d\s*\Z")
TOLD = recorded("uptime-told", looks_like=r"\A\s*\d\d:\d\d:\d\d up .*load average")

_TOLD = re.compile(r"up +(?:(\d+) days?, +)?(?:(\d+):(\d\d)|(\d+) min)")


@dataclass(frozen=True)
class Uptime:
    """Minutes since the kernel was started."""

    minutes: float


@parses(UPTIME)
def uptime(capture: Capture) -> Uptime:
    """Parse the kernel's seconds."""
    found = re.match(r"(\d+\.\d+) ", capture.text)
    if not found:
        raise Unparsable("no seconds in it")
    return Uptime(float(found[1]) / 60)


@parses(TOLD, trust=1)
def uptime_told(capture: Capture) -> Uptime:
    """Parse what the command `uptime` prints: "up 3 days,  4:05" or "up 12 min"."""
    found = _TOLD.search(capture.text)
    if not found:
        raise Unparsable("no time since boot in it")
    days, hours, minutes, few = (int(part or 0) for part in found.groups())
    return Uptime(days * 1440 + hours * 60 + minutes + few)
