"""Which slot of the chassis each PCIe device sits in, where the platform tells."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from qwenhost.facts.keyed import matching
from qwenhost.facts.pci import LSPCI
from qwenhost.facts.reading import bus_id, plain
from qwenhost.facts.registry import parses
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable
from qwenhost.records.source import tree

SLOTS = tree("pci-slots", "/sys/bus/pci/slots/*/address")


@dataclass(frozen=True)
class PciSlots:
    """Bus id of a device's first function -> what its slot is called on the chassis."""

    names: Mapping[str, str]

    def merge(self, other: PciSlots) -> PciSlots:
        """Add the devices that only the other listing places."""
        return PciSlots({**other.names, **self.names})


@parses(SLOTS)
def slots_of_kernel(capture: Capture) -> PciSlots:
    """Parse the kernel's list of slots; addresses come without a function."""
    return PciSlots(
        {bus_id(address): found[1] for found, address in matching(capture, r"/sys/bus/pci/slots/([^/]+)/address")}
    )


@parses(LSPCI, trust=1)
def slots_of_lspci(capture: Capture) -> PciSlots:
    """Parse `lspci -v`; raises Unparsable where it names no slot."""
    blocks = re.split(r"\n(?=\S)", plain(capture.text))
    named = {bus_id(block): found[1] for block in blocks if (found := re.search(r"Physical Slot: (\S+)", block))}
    if not named:
        raise Unparsable("no slot is named in it")
    return PciSlots(named)
