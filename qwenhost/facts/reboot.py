"""Whether the host asks for a reboot, and on account of which packages."""

from __future__ import annotations

from dataclasses import dataclass, replace

from qwenhost.facts.keyed import listing
from qwenhost.facts.registry import parses
from qwenhost.records.bundle import Capture
from qwenhost.records.source import tree

WANTED = "/run/reboot-required"
ANCHOR = "/proc/sys/kernel/random/boot_id"

REQUIRED = replace(
    tree("reboot-required", WANTED, f"{WANTED}.pkgs", ANCHOR), looks_like=rf'\A\s*\{{\s*"(?:{ANCHOR}|{WANTED})"'
)
"""The boot id is there on every host: with it alone, no reboot is asked for."""


@dataclass(frozen=True)
class RebootRequest:
    """`packages`: those that asked, once each."""

    wanted: bool
    packages: tuple[str, ...] = ()


@parses(REQUIRED)
def reboot_request(capture: Capture) -> RebootRequest:
    """Parse the notes that Debian's and Ubuntu's packages leave behind."""
    files = listing(capture, ANCHOR)
    packages = tuple(dict.fromkeys(str(files.get(f"{WANTED}.pkgs", "")).split()))
    return RebootRequest(WANTED in files, packages)
