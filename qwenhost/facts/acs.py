"""ACS registers that somebody cut out of `lspci -vvv`, without the ports that they belong to."""

from __future__ import annotations

import re
from dataclasses import dataclass

from qwenhost.facts.pci import LSPCI
from qwenhost.facts.reading import plain
from qwenhost.facts.registry import parses
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable
from qwenhost.records.source import recorded

LINES = recorded("acs-lines", looks_like=r"^\s*ACSCtl:\s+SrcValid[+-]")


@dataclass(frozen=True)
class AcsLines:
    """Lines of the control register, in the order in which they stood there."""

    lines: tuple[str, ...]

    @property
    def redirecting(self) -> tuple[str, ...]:
        """Those that send peer traffic up to the root complex."""
        return tuple(line for line in self.lines if re.search(r"(?:ReqRedir|CmpltRedir)\+", line))


@parses(LINES)
def acs_lines(capture: Capture) -> AcsLines:
    """Parse the lines; a whole listing names the ports, and is read as such."""
    lines = [line.strip() for line in plain(capture.text).splitlines() if LINES.recognises(line)]
    if not lines or LSPCI.recognises(capture.text):
        raise Unparsable("no register of its own in it")
    return AcsLines(tuple(lines))
