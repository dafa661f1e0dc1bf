"""What is on the PCIe bus: the kernel's tree or `lspci`, with each device's link and place."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from qwenhost.facts.reading import bus_id, plain
from qwenhost.facts.registry import filled, parses
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable
from qwenhost.records.source import command, tree

_FILES = (
    "vendor",
    "device",
    "class",
    "subsystem_vendor",
    "subsystem_device",
    "current_link_width",
    "max_link_width",
    "current_link_speed",
    "max_link_speed",
    "numa_node",
    "revision",
)

PCI_TREE = replace(
    tree("pci", *(f"/sys/bus/pci/devices/*/{name}" for name in _FILES)),
    looks_like=r'\A\s*\{\s*"/sys/bus/pci/devices/',
)

_LSPCI_LINE = r"^(?:[0-9a-fA-F]{4}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7] [A-Z0-9][^\n]*: "

LSPCI = command("lspci", "lspci", "-D", "-nn", "-vvv", looks_like=_LSPCI_LINE)

NVIDIA = "10de"

_HYPERVISOR_VENDORS = frozenset({"1af4", "1b36", "1414", "1d0f", "15ad", "5853", "1ae0", "1234", "80ee"})
"""virtio, QEMU, Microsoft, Amazon, VMware, Xen, Google, Bochs, VirtualBox (pci.ids)."""


@dataclass(frozen=True)
class PciDevice:
    """One function on the bus. Widths in lanes, speeds in GT/s; None: not seen. Ids are hexadecimal,
    lower case.

    `unreachable`: its configuration space reads as all ones, so it no longer answers.
    """

    bus_id: str
    vendor: str | None = None
    device: str | None = None
    class_code: str | None = None
    """Four digits: 0302 is a 3D controller, 0680 an NVSwitch or other bridge, 0604 a PCI bridge."""
    name: str | None = None
    width_current: int | None = None
    width_max: int | None = None
    speed_current: float | None = None
    speed_max: float | None = None
    numa_node: int | None = None
    upstream: str | None = None
    """Bus id of the port that it hangs below."""
    driver: str | None = None
    unreachable: bool | None = None
    at_root: bool | None = None
    """It hangs at the root complex itself, without a port above it; None: its place was not seen."""
    behind: tuple[str, int] | None = None
    """Of a bridge: domain and number of the bus below it."""
    acs_redirect: bool | None = None
    """Of a port: its ACS sends what one device writes to another up to the root complex."""

    @property
    def is_gpu(self) -> bool:
        """An NVIDIA display or 3D controller."""
        return self.vendor == NVIDIA and (self.class_code or "")[:2] == "03"

    @property
    def is_nvswitch(self) -> bool:
        """An NVIDIA bridge of class 0680: the switches of HGX and DGX baseboards."""
        return self.vendor == NVIDIA and self.class_code == "0680"

    @property
    def is_bridge(self) -> bool:
        """Any bridge or switch port."""
        return (self.class_code or "")[:2] == "06"

    def merge(self, other: PciDevice) -> PciDevice:
        """Fill what this view lacks; a device that one view could not reach is unreachable."""
        joined = filled(self, other)
        return joined if not other.unreachable else PciDevice(**{**joined.__dict__, "unreachable": True})


@dataclass(frozen=True)
class PciDevices:
    """All functions seen. `complete`: the whole bus was listed, not only what somebody filtered."""

    devices: tuple[PciDevice, ...]
    complete: bool

    def merge(self, other: PciDevices) -> PciDevices:
        """Join two listings by bus id."""
        known = {device.bus_id: device for device in self.devices}
        for device in other.devices:
            mine = known.get(device.bus_id)
            known[device.bus_id] = mine.merge(device) if mine else device
        return PciDevices(tuple(known[key] for key in sorted(known)), self.complete or other.complete)

    @property
    def gpus(self) -> tuple[PciDevice, ...]:
        """NVIDIA GPUs, in bus order."""
        return tuple(device for device in self.devices if device.is_gpu)

    @property
    def switches(self) -> tuple[PciDevice, ...]:
        """NVSwitches, in bus order."""
        return tuple(device for device in self.devices if device.is_nvswitch)

    @property
    def virtual(self) -> bool:
        """Whether devices of a hypervisor show that this is a virtual machine."""
        return any(device.vendor in _HYPERVISOR_VENDORS for device in self.devices)

    def at(self, address: str | None) -> PciDevice | None:
        """Return the device at a bus id."""
        return next((device for device in self.devices if device.bus_id == address), None)

    def above(self, device: PciDevice) -> Iterator[PciDevice]:
        """Yield the ports from a device up to its root port."""
        seen = {device.bus_id}
        port = self.at(device.upstream)
        while port and port.bus_id not in seen:
            seen.add(port.bus_id)
            yield port
            port = self.at(port.upstream)


@parses(PCI_TREE)
def devices_from_tree(capture: Capture) -> PciDevices:
    """Parse the JSON of the kernel's device files."""
    values: dict[str, dict[str, str]] = {}
    places: dict[str, str] = {}
    for path, content in json.loads(capture.text).items():
        where, _, name = path.removeprefix("/sys/bus/pci/devices/").partition("/")
        if where.endswith("@"):
            places[where.removesuffix("@")] = content
        elif name and not name.endswith("!"):
            values.setdefault(where, {})[name] = content.strip()
    if not values:
        raise Unparsable("no PCI device in it")
    devices = (_from_files(where, values[where], places.get(where, "")) for where in sorted(values))
    return PciDevices(tuple(devices), complete=True)


def _from_files(where: str, files: dict[str, str], place: str) -> PciDevice:
    above = place.rstrip("/").split("/")[-2] if place.count("/") > 1 else ""
    node = files.get("numa_node")
    return PciDevice(
        bus_id=bus_id(where),
        vendor=_hex(files.get("vendor"), 4),
        device=_hex(files.get("device"), 4),
        class_code=(_hex(files.get("class"), 6) or "")[:4] or None,
        width_current=_lanes(files.get("current_link_width")),
        width_max=_lanes(files.get("max_link_width")),
        speed_current=_speed(files.get("current_link_speed")),
        speed_max=_speed(files.get("max_link_speed")),
        numa_node=int(node) if node else None,
        upstream=bus_id(above) if "." in above else None,
        at_root=above.startswith("pci") if above else None,
        unreachable=_hex(files.get("revision"), 2) == "ff" if "revision" in files else None,
    )


@parses(LSPCI, trust=1)
def devices_from_lspci(capture: Capture) -> PciDevices:
    """Parse `lspci`, with or without -nn, -v and a device filter."""
    devices = [device for _, block in lspci_blocks(capture.text) for device in _from_block(block)]
    if not devices:
        raise Unparsable("no lspci line in it")
    complete = any(device.vendor not in (NVIDIA, None) for device in devices)
    return PciDevices(tuple(_placed(devices)), complete)


def lspci_blocks(text: str) -> Iterator[tuple[str, str]]:
    """Yield bus id and lines of each function that lspci printed."""
    for block in re.split(rf"(?={_LSPCI_LINE})", plain(text), flags=re.MULTILINE):
        address = bus_id(block.partition(" ")[0])
        if address:
            yield address, block


def _placed(devices: list[PciDevice]) -> Iterator[PciDevice]:
    """Find the port above each device by the bus numbers that bridges print with -v."""
    below = {device.behind: device for device in devices if device.behind}
    for device in devices:
        domain, bus = device.bus_id[:4], int(device.bus_id[5:7], 16)
        port = below.get((domain, bus))
        yield replace(device, upstream=port.bus_id) if port else replace(device, at_root=bus == 0 or None)


_CLASSES = {
    "3D controller": "0302",
    "VGA compatible controller": "0300",
    "Display controller": "0380",
    "PCI bridge": "0604",
    "Host bridge": "0600",
    "ISA bridge": "0601",
    "Bridge": "0680",
}
"""Class names that lspci prints without -nn (pci.ids)."""

_VENDORS = {
    "NVIDIA Corporation": NVIDIA,
    "Red Hat, Inc. Virtio": "1af4",
    "Red Hat": "1b36",
    "Microsoft Corporation": "1414",
    "Amazon.com": "1d0f",
    "VMware": "15ad",
    "Intel Corporation": "8086",
    "Advanced Micro Devices": "1022",
    "Mellanox": "15b3",
}


def _from_block(block: str) -> Iterator[PciDevice]:
    head = re.match(r"(?P<bus>\S+) (?P<class>[^\n]*?)(?: \[(?P<code>[0-9a-f]{4})\])?: (?P<name>[^\n]*)", block)
    if not head or not bus_id(head["bus"]):
        return
    ids = re.search(r"\[([0-9a-f]{4}):([0-9a-f]{4})\]", head["name"])
    width, speed = _link(block, "LnkSta"), _link(block, "LnkCap")
    node = re.search(r"^\s+NUMA node: (-?\d+)", block, re.MULTILINE)
    driver = re.search(r"^\s+Kernel driver in use: (\S+)", block, re.MULTILINE)
    yield PciDevice(
        bus_id=bus_id(head["bus"]),
        vendor=ids[1] if ids else _vendor(head["name"]),
        device=ids[2] if ids else _unnamed_device(head["name"]),
        class_code=head["code"] or _CLASSES.get(head["class"]),
        name=re.sub(r" \(rev .*", "", head["name"]),
        width_current=width[0],
        speed_current=width[1],
        width_max=speed[0],
        speed_max=speed[1],
        numa_node=int(node[1]) if node else None,
        driver=driver[1] if driver else None,
        behind=_behind(block, bus_id(head["bus"])),
        acs_redirect=_redirects(block),
        unreachable=bool(re.search(r"\(rev ff\)|Unknown header type 7f", block)),
    )


def _link(block: str, register: str) -> tuple[int | None, float | None]:
    line = re.search(rf"^\s+{register}:.*", block, re.MULTILINE)
    if not line:
        return None, None
    width, speed = re.search(r"Width x(\d+)", line[0]), re.search(r"Speed ([\d.]+)GT/s", line[0])
    return (int(width[1]) if width else None), (float(speed[1]) if speed else None)


def _behind(block: str, address: str) -> tuple[str, int] | None:
    found = re.search(r"^\s+Bus: primary=\w+, secondary=(\w+)", block, re.MULTILINE)
    return (address[:4], int(found[1], 16)) if found else None


def _redirects(block: str) -> bool | None:
    """Tell whether requests or completions are redirected; source validation alone redirects nothing."""
    line = re.search(r"^\s+ACSCtl:.*", block, re.MULTILINE)
    return bool(re.search(r"(?:ReqRedir|CmpltRedir)\+", line[0])) if line else None


def _vendor(name: str) -> str | None:
    return next((code for start, code in _VENDORS.items() if name.startswith(start)), None)


def _unnamed_device(name: str) -> str | None:
    found = re.search(r"Corporation Device ([0-9a-f]{4})\b", name)
    return found[1] if found else None


def _hex(text: str | None, digits: int) -> str | None:
    return f"{int(text, 16):0{digits}x}" if text else None


def _lanes(text: str | None) -> int | None:
    """Return the width; the kernel writes 0 for a dead link, 63 or 255 where all bits read as one."""
    return int(text) if text and text.isdigit() and int(text) not in (0, 63, 255) else None


def _speed(text: str | None) -> float | None:
    found = re.match(r"[\d.]+", text or "")
    return float(found[0]) if found else None
