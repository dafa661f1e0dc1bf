"""Which kernel modules are loaded, and what was said when one could not be."""

from __future__ import annotations

import re
from dataclasses import dataclass

from qwenhost.facts.reading import plain
from qwenhost.facts.registry import parses
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable
from qwenhost.records.source import file, recorded

MODULES = file("modules", "/proc/modules", looks_like=r"^\w+ \d+ -?\d+ \S+ (?:Live|Loading|Unloading) 0x")

LSMOD = recorded(
    "lsmod",
    looks_like=r"^Module\s+Size\s+Used by"
    r"|^(?:nvidia|nouveau|nvidia_uvm|nv_peer_mem|ib_core|mlx5_\w+)\s+\d{4,}\s+-?\d+",
)


@dataclass(frozen=True)
class KernelModules:
    """Names with underscores. A listing may have been filtered before it was sent."""

    names: frozenset[str]

    def merge(self, other: KernelModules) -> KernelModules:
        """Join two listings."""
        return KernelModules(self.names | other.names)


@parses(MODULES)
def modules(capture: Capture) -> KernelModules:
    """Parse the kernel's list."""
    return _some(re.findall(r"^(\w+) \d+ -?\d+ ", capture.text, re.MULTILINE))


@parses(LSMOD, trust=1)
def modules_from_lsmod(capture: Capture) -> KernelModules:
    """Parse `lsmod`, whole or filtered."""
    return _some(re.findall(r"^\s*(\w+)\s+\d+\s+-?\d+(?:\s|$)", plain(capture.text), re.MULTILINE))


def _some(names: list[str]) -> KernelModules:
    if not names:
        raise Unparsable("no module in it")
    return KernelModules(frozenset(names))
