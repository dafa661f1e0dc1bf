"""Whether the firmware lets only signed code run, and whether the kernel insists on signed modules."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from qwenhost.facts.keyed import listing
from qwenhost.facts.registry import filled, parses
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable
from qwenhost.records.source import command, tree

ANCHOR = "/proc/sys/kernel/osrelease"
_VARIABLE = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"

FIRMWARE = replace(
    tree("secure-boot", _VARIABLE, "/sys/firmware/efi/fw_platform_size", ANCHOR),
    looks_like=rf'\A\s*\{{\s*"{ANCHOR}"',
)
"""The variable: four bytes of attributes, one of value. ANCHOR is on every host; alone: not booted by UEFI."""

MOKUTIL = command("mokutil", "mokutil", "--sb-state", looks_like=r"^SecureBoot (?:enabled|disabled)\b")


@dataclass(frozen=True)
class SecureBoot:
    """None: not seen."""

    enabled: bool | None = None

    def merge(self, other: SecureBoot) -> SecureBoot:
        """Fill what this view lacks."""
        return filled(self, other)


@parses(FIRMWARE)
def from_firmware(capture: Capture) -> SecureBoot:
    """Parse the UEFI variable; a host without UEFI has no Secure Boot."""
    files = listing(capture, ANCHOR)
    if _VARIABLE in files:
        return SecureBoot(files[_VARIABLE].endswith("\x01"))
    return SecureBoot(None if any("/efi" in path for path in files) else False)


@parses(MOKUTIL, trust=1, accepts=("ok", "failed"))
def from_mokutil(capture: Capture) -> SecureBoot:
    """Parse `mokutil --sb-state`."""
    told = f"{capture.text}\n{capture.error}"
    if re.search(r"^SecureBoot enabled", told, re.MULTILINE):
        return SecureBoot(True)
    if re.search(r"SecureBoot disabled|doesn't support Secure Boot|not supported on this system", told):
        return SecureBoot(False)
    raise Unparsable(capture.error or "no state in it")
