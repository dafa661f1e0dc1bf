"""Hugepages that the host has, per NUMA node and in all."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from qwenhost.facts.keyed import matching
from qwenhost.facts.registry import parses
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable
from qwenhost.records.source import file, recorded, tree

WHOLE_HOST = -1

POOLS = tree(
    "hugepages",
    "/sys/devices/system/node/node*/hugepages/hugepages-*kB/nr_hugepages",
    "/sys/kernel/mm/hugepages/hugepages-*kB/nr_hugepages",
)
MEMORY = file("meminfo", "/proc/meminfo", looks_like=r"^HugePages_Total:\s+\d+")

SHORTFALL = recorded("hugepages-shortfall", looks_like=r"requested \d+ hugepages? but only \d+ could be allocated")
"""Said by the setup scripts of packet and storage frameworks."""

PATH = (
    r"/sys/(?:devices/system/node/node(?P<node>\d+)|kernel/mm)"
    r"/hugepages/hugepages-(?P<kib>\d+)kB/nr_hugepages"
)


@dataclass(frozen=True)
class Hugepages:
    """(node, page size in KiB) -> pages; node -1 is the host as a whole."""

    pages: Mapping[tuple[int, int], int] = field(default_factory=dict)

    def merge(self, other: Hugepages) -> Hugepages:
        """Add what only the other view has."""
        return Hugepages({**other.pages, **self.pages})


@parses(POOLS)
def pools(capture: Capture) -> Hugepages:
    """Parse the kernel's pool files."""
    pages = {
        (int(found["node"] or WHOLE_HOST), int(found["kib"])): int(content)
        for found, content in matching(capture, PATH)
    }
    if not pages:
        raise Unparsable("no hugepage pool in it")
    return Hugepages(pages)


@parses(MEMORY, trust=1)
def from_meminfo(capture: Capture) -> Hugepages:
    """Parse /proc/meminfo, which tells the default page size only."""
    values = dict(re.findall(r"^(HugePages_Total|Hugepagesize):\s+(\d+)", capture.text, re.MULTILINE))
    return Hugepages({(WHOLE_HOST, int(values["Hugepagesize"])): int(values["HugePages_Total"])})


@dataclass(frozen=True)
class HugepageShortfall:
    """A program asked for `asked` pages of the default size and was given `got`; `line` is how it said so."""

    asked: int
    got: int
    line: str


@parses(SHORTFALL)
def shortfall(capture: Capture) -> HugepageShortfall:
    """Parse the message of a setup script."""
    found = re.search(r".*requested (\d+) hugepages? but only (\d+) could be allocated.*", capture.text)
    if not found:
        raise Unparsable("no shortfall in it")
    return HugepageShortfall(int(found[1]), int(found[2]), found[0].strip())
