"""Where each device hangs, from the tree that `lspci -t` draws."""

from __future__ import annotations

import re
from collections.abc import Iterator

from qwenhost.facts.pci import PciDevice, PciDevices
from qwenhost.facts.reading import plain
from qwenhost.facts.registry import parses
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable
from qwenhost.records.source import recorded

TREE = recorded("lspci-tree", looks_like=r"^[-\\+ |]*-\[[0-9a-f]{4}:[0-9a-f]{2}(?:-[0-9a-f]{2})?\]-")

_MARK = re.compile(
    r"\[(?:(?P<domain>[0-9a-f]{4}):)?(?P<bus>[0-9a-f]{2})(?:-[0-9a-f]{2})?\]|(?P<slot>[0-9a-f]{2}\.[0-7])"
)

_NAMED = re.compile(r"(?<=[0-9a-f]{2}\.[0-7]) +\S.*")
"""With -v a name stands behind the last device of a line."""


@parses(TREE, trust=2)
def places_in_tree(capture: Capture) -> PciDevices:
    """Parse the tree; it tells places, and neither kinds nor links of devices."""
    found = tuple(_devices(plain(capture.text)))
    if not found:
        raise Unparsable("no device in it")
    return PciDevices(found, complete=False)


def _devices(text: str) -> Iterator[PciDevice]:
    """Walk the lines: what stands further to the left on the lines above is the way to a device."""
    domain, way = "0000", list[tuple[int, str, str]]()
    for line in text.splitlines():
        for mark in _MARK.finditer(_NAMED.sub("", line)):
            column = mark.start()
            way = [step for step in way if step[0] < column]
            domain = mark["domain"] or domain
            if mark["bus"]:
                way.append((column, mark["bus"], way[-1][2] if way else ""))
            elif way:
                bus, port = way[-1][1], way[-1][2]
                address = f"{domain}:{bus}:{mark['slot']}"
                yield PciDevice(address, upstream=port or None, at_root=not port)
                way.append((column, bus, address))
