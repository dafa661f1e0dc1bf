"""Address space that the kernel could not give to a device: its own lines, and `lspci -v`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from qwenhost.facts.kernel_lines import KERNEL_LOG, kernel_log
from qwenhost.facts.pci import LSPCI, lspci_blocks
from qwenhost.facts.reading import bus_id
from qwenhost.facts.registry import parses
from qwenhost.records.bundle import Capture

_WORDS = ("bar 0: ", "bar 0 [")
"""Digits count as alike."""

_LARGE_BYTES = 256 << 20
"""A window onto a GPU's memory has at least this size; smaller ones of other devices are often left out."""

_SAID = re.compile(
    r"pci (?P<bus>[0-9a-f:.]+): BAR (?P<number>[0-5])(?: \[mem size (?P<size>0x[0-9a-f]+)[^\]]*\])?"
    r"(?: \[mem 0x[^\]]*\])?: (?P<what>no space|can't assign; no space|failed to assign|assigned)"
    r"(?: for)?(?: \[mem size (?P<size2>0x[0-9a-f]+))?"
)
"""The size stands in front of the colon since Linux 6.9, behind it before."""

_UNASSIGNED = re.compile(r"^\s+Region (\d): Memory at <(?:unassigned|ignored)>.*", re.MULTILINE)


@dataclass(frozen=True)
class UnassignedBars:
    """(bus id, number of the BAR) -> the line that tells that it has no addresses."""

    lines: tuple[tuple[str, int, str], ...]

    def merge(self, other: UnassignedBars) -> UnassignedBars:
        """Add what only the other source tells of."""
        known = {line[:2] for line in self.lines}
        return UnassignedBars((*self.lines, *(line for line in other.lines if line[:2] not in known)))


@parses(KERNEL_LOG)
def unassigned_in_log(capture: Capture) -> UnassignedBars:
    """Take large windows whose last word is a failure: the kernel tries again in another place."""
    found: dict[tuple[str, int], str] = {}
    for message in kernel_log(capture).messages(_WORDS):
        said = None if message.earlier_boot else _SAID.search(message.text)
        if said and said["what"] == "assigned":
            found.pop((bus_id(said["bus"]), int(said["number"])), None)
        elif said and int(said["size"] or said["size2"] or "0", 16) >= _LARGE_BYTES:
            found[bus_id(said["bus"]), int(said["number"])] = message.text.strip()
    return UnassignedBars(tuple((where, number, line) for (where, number), line in found.items()))


@parses(LSPCI, trust=1)
def unassigned_in_lspci(capture: Capture) -> UnassignedBars:
    """Take regions of memory without an address."""
    return UnassignedBars(tuple(_regions(capture.text)))


def _regions(text: str) -> Iterator[tuple[str, int, str]]:
    for where, block in lspci_blocks(text):
        for region in _UNASSIGNED.finditer(block):
            yield where, int(region[1]), region[0].strip()
