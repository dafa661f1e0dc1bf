"""Whether the clock is kept in step with others."""

from __future__ import annotations

import re
from dataclasses import dataclass

from qwenhost.facts.registry import parses
from qwenhost.records.bundle import Capture, Status
from qwenhost.records.errors import Unparsable
from qwenhost.records.source import command, recorded, tree

SHOW = command("timedatectl", "timedatectl", "show", looks_like=r"^NTPSynchronized=(?:yes|no)\s*$")
STATUS = recorded("timedatectl-status", looks_like=r"^\s*(?:System clock|NTP) synchronized: (?:yes|no)")
CHRONY = recorded("chronyc-tracking", looks_like=r"^Leap status\s*: ")
CONTAINER = tree("container", "/run/systemd/container", "/proc/version")

ANSWERED: tuple[Status, ...] = ("ok", "missing", "failed")
"""Without systemd's clock service, nothing says whether the clock is in step: that is an answer here."""


@dataclass(frozen=True)
class Clock:
    """`synchronised` is None where the host has nothing that tells; `line` is how it was told."""

    synchronised: bool | None
    line: str = ""


@dataclass(frozen=True)
class Container:
    """`manager`: what runs the host as a container, such as systemd-nspawn; empty for none."""

    manager: str


@parses(CHRONY)
def chrony(capture: Capture) -> Clock:
    """Parse `chronyc tracking`."""
    found = re.search(r"^Leap status\s*: (.+)$", capture.text, re.MULTILINE)
    if not found:
        raise Unparsable("no leap status in it")
    return Clock(found[1].strip() != "Not synchronised", found[0])


@parses(STATUS, trust=1)
def status(capture: Capture) -> Clock:
    """Parse `timedatectl`, of systemd before and after 239."""
    found = re.search(r"(?:System clock|NTP) synchronized: (yes|no)", capture.text)
    if not found:
        raise Unparsable("no state of the clock in it")
    return Clock(found[1] == "yes", found[0])


@parses(SHOW, trust=2, accepts=ANSWERED)
def show(capture: Capture) -> Clock:
    """Parse `timedatectl show`."""
    found = re.search(r"^NTPSynchronized=(yes|no)", capture.text, re.MULTILINE)
    if capture.status == "ok" and not found:
        raise Unparsable("no state of the clock in it")
    return Clock(found[1] == "yes", found[0]) if found else Clock(None)


@parses(CONTAINER)
def container(capture: Capture) -> Container:
    """Parse what systemd notes of the container that it runs in."""
    found = re.search(r'"/run/systemd/container": "([\w-]+)', capture.text)
    return Container(found[1] if found else "")
