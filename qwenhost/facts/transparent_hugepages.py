"""The mode of transparent hugepages."""

from __future__ import annotations

import re
from dataclasses import dataclass

from qwenhost.facts.registry import parses
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable
from qwenhost.records.source import file

ENABLED = file(
    "transparent-hugepage",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    looks_like=r"\A\s*(\[?(always|madvise|never)\]?\s+){2}\[?(always|madvise|never)\]?\s*\Z",
)


@dataclass(frozen=True)
class TransparentHugepages:
    """`mode`: always, madvise or never."""

    mode: str


@parses(ENABLED)
def mode(capture: Capture) -> TransparentHugepages:
    """Parse "always [madvise] never", or the word alone."""
    found = re.search(r"\[(\w+)\]", capture.text) or re.fullmatch(r"\s*(always|madvise|never)\s*", capture.text)
    if not found:
        raise Unparsable(f"no mode in {capture.text.strip()!r}")
    return TransparentHugepages(found[1])
