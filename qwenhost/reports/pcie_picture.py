"""A picture of the PCIe tree from the processors to the GPUs, NVSwitches and network cards, with each link."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from xml.etree import ElementTree as ET

from qwenhost.facts.gpus import Gpus
from qwenhost.facts.pci import PciDevice, PciDevices
from qwenhost.reports import svg
from qwenhost.reports.marks import Marks

ROW = 30.0
COLUMN = 188.0
BOX = (156.0, 22.0)
MARGIN = 8.0

NETWORK = "02"
"""Class code of network controllers (pci.ids)."""


@dataclass
class _Node:
    """A device, or a NUMA node where `device` is None; `depth` columns from the left, `row` from above."""

    name: str
    device: PciDevice | None = None
    children: list[_Node] = field(default_factory=list)
    depth: int = 0
    row: float = 0.0

    @property
    def x(self) -> float:
        return MARGIN + self.depth * COLUMN

    @property
    def y(self) -> float:
        return MARGIN + self.row * ROW

    def walk(self) -> Iterator[_Node]:
        """Yield it and all below it."""
        yield self
        for child in self.children:
            yield from child.walk()


def draw(pci: PciDevices, gpus: Gpus | None, marks: Marks) -> str:
    """Return the picture; empty where no GPU is on the bus."""
    if not pci.gpus:
        return ""
    roots = _roots(pci, _names(gpus))
    rows = 0.0
    for root in roots:
        rows = _place(root, 0, rows)
    nodes = [node for root in roots for node in root.walk()]
    width = max(node.x for node in nodes) + BOX[0] + MARGIN
    parts = [part for node in nodes for child in node.children for part in _link(node, child, marks)]
    parts += [part for node in nodes for part in _device(node, marks)]
    return svg.picture(width, rows * ROW + MARGIN, f"PCIe tree with {len(pci.gpus)} GPUs", parts)


def _names(gpus: Gpus | None) -> Mapping[str, str]:
    known = [gpu for gpu in gpus.gpus if gpu.bus_id and gpu.index is not None] if gpus else []
    return {str(gpu.bus_id): f"gpu{gpu.index}" for gpu in known}


def _shown(device: PciDevice) -> bool:
    return device.is_gpu or device.is_nvswitch or (device.class_code or "").startswith(NETWORK)


def _roots(pci: PciDevices, names: Mapping[str, str]) -> Sequence[_Node]:
    """Build the tree of what is shown and all ports above it, one root per NUMA node."""
    leaves = [device for device in pci.devices if _shown(device)]
    devices = {device.bus_id: device for leaf in leaves for device in (leaf, *pci.above(leaf))}
    nodes = {address: _Node(_label(device, names), device) for address, device in devices.items()}
    tops: dict[str, _Node] = {}
    for address in sorted(devices):
        port, top = nodes.get(devices[address].upstream or ""), _top(devices[address])
        above = port or tops.setdefault(top, _Node(top))
        above.children.append(nodes[address])
    return [tops[name] for name in sorted(tops)]


def _top(device: PciDevice) -> str:
    return "PCIe" if device.numa_node in (None, -1) else f"NUMA node {device.numa_node}"


def _label(device: PciDevice, names: Mapping[str, str]) -> str:
    kinds = {"nvswitch": device.is_nvswitch, "gpu": device.is_gpu, "net": (device.class_code or "")[:2] == NETWORK}
    kind = names.get(device.bus_id) or next((name for name, fits in kinds.items() if fits), "port")
    return f"{kind} {device.bus_id}"


def _place(node: _Node, depth: int, row: float) -> float:
    """Give each leaf a row of its own, each inner node the middle of its children; return the next free row."""
    node.depth, start = depth, row
    for child in node.children:
        row = _place(child, depth + 1, row)
    node.row = (node.children[0].row + node.children[-1].row) / 2 if node.children else start
    return row if node.children else start + 1


def _link(above: _Node, below: _Node, marks: Marks) -> Iterator[ET.Element]:
    verdict = marks.verdict(below.device.bus_id, of="pcie.") if below.device else None
    start, end = (above.x + BOX[0], above.y + BOX[1] / 2), (below.x, below.y + BOX[1] / 2)
    middle = end[0] - 24
    yield svg.line([start, (middle, start[1]), (middle, end[1]), end], f"lane {svg.mark(verdict)}")
    if verdict:
        yield svg.text((middle, end[1] - 4), _width(below.device), f"small {svg.mark(verdict)}", middle=True)


def _device(node: _Node, marks: Marks) -> Iterator[ET.Element]:
    device = node.device
    verdict = marks.verdict(device.bus_id) if device else None
    told = [node.name, _link_of(device), marks.title(device.bus_id) if device else ""]
    leaf = "device" if device and _shown(device) else "port"
    yield svg.box((node.x, node.y), BOX, f"{leaf} {svg.mark(verdict)}", "\n".join(filter(None, told)))
    yield svg.text((node.x + 6, node.y + 15), node.name, "name")


def _width(device: PciDevice | None) -> str:
    return f"x{device.width_current}" if device and device.width_current else ""


def _link_of(device: PciDevice | None) -> str:
    """Return width and speed in words, as far as they were seen."""
    if device is None or not device.width_current:
        return ""
    speed = f", {device.speed_current:g} of {device.speed_max or 0:g} GT/s" if device.speed_current else ""
    return f"x{device.width_current} of x{device.width_max or 0}{speed}"
