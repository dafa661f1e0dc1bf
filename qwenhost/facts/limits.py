"""Resource limits: what this project configured, and what shells and services were seen to have."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from qwenhost.facts.registry import parses
from qwenhost.records.bundle import Capture, Status
from qwenhost.records.errors import Unparsable
from qwenhost.records.source import file, recorded

OWN = "/etc/security/limits.d/90-qwenhost.conf"
CONFIGURED = file("limits-qwenhost", OWN)
SHELL = recorded("ulimit", looks_like=r"^(?:open files|max locked memory)\b.*\(")

READABLE: tuple[Status, ...] = ("ok", "missing")
"""A missing file was looked for and is not there: that is an answer here."""

LINE = re.compile(
    r"^(?P<who>\*|root)\s+(?P<kind>hard|soft|-)\s+(?P<item>\w+)\s+(?P<value>\S+)\s*$", re.MULTILINE
)

ULIMIT = re.compile(r"^(?P<name>open files|max locked memory)\b[^)]*\)\s+(?P<value>\S+)\s*$", re.MULTILINE)
ITEM = {"open files": "nofile", "max locked memory": "memlock"}


@dataclass(frozen=True)
class ConfiguredLimits:
    """Item, such as memlock -> the lowest value that any line of ours gives it; empty without our file."""

    values: Mapping[str, str]


@dataclass(frozen=True)
class ShellLimits:
    """Item -> value, as `ulimit -a` printed it."""

    values: Mapping[str, str]


@parses(CONFIGURED, accepts=READABLE)
def configured(capture: Capture) -> ConfiguredLimits:
    """Parse the drop-in that the role host_tuning writes."""
    found: dict[str, str] = {}
    for match in LINE.finditer(capture.text):
        found[match["item"]] = min(found.get(match["item"], match["value"]), match["value"], key=_size)
    if capture.status == "ok" and not found:
        raise Unparsable("no limit in it")
    return ConfiguredLimits(found)


def _size(value: str) -> float:
    return float(value) if value.isdigit() else float("inf")


@parses(SHELL)
def shell(capture: Capture) -> ShellLimits:
    """Parse `ulimit -a`."""
    found = {ITEM[match["name"]]: match["value"] for match in ULIMIT.finditer(capture.text)}
    if not found:
        raise Unparsable("no limit in it")
    return ShellLimits(found)
