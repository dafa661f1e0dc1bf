"""Errors that PCIe devices count and keep: the kernel's AER counters, and the status bits that lspci prints."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from qwenhost.facts.keyed import matching
from qwenhost.facts.pci import LSPCI, lspci_blocks
from qwenhost.facts.reading import bus_id
from qwenhost.facts.registry import parses
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable
from qwenhost.records.source import tree

DEVICES = "/sys/bus/pci/devices"

COUNTERS = replace(
    tree("pcie-errors", *(f"{DEVICES}/*/aer_dev_{kind}" for kind in ("correctable", "nonfatal", "fatal"))),
    looks_like=r'/aer_dev_(?:correctable|nonfatal|fatal)": ',
)

GRAVE = ("DLP", "SDES", "TLP", "FCP", "CmpltTO", "CmpltAbrt", "RxOF", "MalfTLP", "ECRC")
"""Uncorrectable errors as lspci names them, without those that probing of devices sets (UnsupReq, UnxCmplt)."""


@dataclass(frozen=True)
class Counted:
    """Errors of one device since the host started."""

    correctable: int = 0
    nonfatal: int = 0
    fatal: int = 0


@dataclass(frozen=True)
class PcieErrors:
    """Bus id -> what was counted, and bus id -> uncorrectable errors whose status bit still stands."""

    counted: Mapping[str, Counted] = field(default_factory=dict)
    standing: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def merge(self, other: PcieErrors) -> PcieErrors:
        """Join two views."""
        return PcieErrors({**other.counted, **self.counted}, {**other.standing, **self.standing})


@parses(COUNTERS)
def counted_errors(capture: Capture) -> PcieErrors:
    """Parse the totals at the end of each file."""
    found = dict[str, dict[str, int]]()
    for place, text in matching(capture, rf"{DEVICES}/([^/]+)/aer_dev_(\w+)"):
        total = re.search(r"^TOTAL_ERR_\w+ (\d+)", text, re.MULTILINE)
        if total:
            found.setdefault(bus_id(place[1]), {})[place[2]] = int(total[1])
    if not found:
        raise Unparsable("no counter in it")
    return PcieErrors(counted={where: Counted(**totals) for where, totals in found.items()})


@parses(LSPCI, trust=1)
def standing_errors(capture: Capture) -> PcieErrors:
    """Parse the status registers that `lspci -vvv` prints for root."""
    found = {}
    for address, block in lspci_blocks(capture.text):
        line = re.search(r"^\s+UESta:(.*)", block, re.MULTILINE)
        if line:
            found[address] = tuple(name for name in re.findall(r"(\w+)\+", line[1]) if name in GRAVE)
    if not found:
        raise Unparsable("no status register in it")
    return PcieErrors(standing=found)
