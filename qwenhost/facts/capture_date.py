"""When a capture was made, as `nvidia-smi` stamps its output with the host's clock."""

from __future__ import annotations

import re
from dataclasses import dataclass

from qwenhost.facts.gpus import QUERY, TABLE, XML
from qwenhost.facts.reading import plain
from qwenhost.facts.registry import parses
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_STAMP = re.compile(
    rf"(?:^|Timestamp\s*: |<timestamp>)(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) +({'|'.join(_MONTHS)}) +\d+ [\d:]{{7,8}}"
    r"(?: [AP]M)?(?: [A-Z]{2,5})? (\d{4})",
    re.MULTILINE,
)


@dataclass(frozen=True)
class CaptureDate:
    """The month of the capture, such as "2026-12"."""

    month: str


@parses(TABLE)
@parses(QUERY, trust=1)
@parses(XML, trust=1)
def stamped(capture: Capture) -> CaptureDate:
    """Read the stamp at the head of `nvidia-smi`; raises Unparsable where it was cut off."""
    found = _STAMP.search(plain(capture.text))
    if not found:
        raise Unparsable("no time stamp in it")
    return CaptureDate(f"{found[2]}-{_MONTHS.index(found[1]) + 1:02}")
