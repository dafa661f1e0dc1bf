"""Which boot of the host it is."""

from __future__ import annotations

import re
from dataclasses import dataclass

from qwenhost.facts.registry import parses
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable
from qwenhost.records.source import file

BOOT_ID = file("boot-id", "/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True)
class Boot:
    """`id` is new with each start of the kernel."""

    id: str


@parses(BOOT_ID)
def boot(capture: Capture) -> Boot:
    """Parse the kernel's UUID."""
    found = re.fullmatch(r"[0-9a-f-]{36}", capture.text.strip())
    if not found:
        raise Unparsable("no UUID in it")
    return Boot(found[0])
