"""The PCI tree of a simulated host: host bridges, root ports, switches, GPUs and NVSwitches.

Devices are folders below `pci-root`, nested as in /sys/devices; `pci` holds the links that are shown as
/sys/bus/pci/devices. The links are relative and hold in both places: both folders are four levels deep.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from qwenhost.lab.simulator.guest import state
from qwenhost.lab.simulator.pci_config import (
    DOWNSTREAM,
    ENDPOINT,
    ROOT_PORT,
    UPSTREAM,
    Function,
    config_space,
)

MIB = 1 << 20
_AER = ("RxErr", "BadTLP", "BadDLLP", "Rollover", "Timeout", "NonFatalErr", "CorrIntErr", "HeaderOF")
_AER_HARD = ("Undefined", "DLP", "SDES", "TLP", "FCP", "CmpltTO", "CmpltAbrt", "UnxCmplt", "RxOF", "MalfTLP")
_SPEED = "16.0 GT/s PCIe"

_HOST_BRIDGE = (0x1022, 0x1480, 0x060000)
_ROOT_PORT = (0x1022, 0x1483, 0x060400)
_SWITCH = (0x1000, 0xC010, 0x060400)
"""AMD Starship host bridge and GPP bridge, Broadcom PEX880xx Gen 4 switch: ids from pci.ids."""


@dataclass(frozen=True)
class Place:
    """Where a function sits: its folder, NUMA node and that node's CPUs."""

    folder: Path
    node: int
    cpus: str


def write_tree(host_root: Path, values: Mapping[str, str]) -> None:
    """Write the whole tree of a healthy host from its state."""
    home = state.folder(host_root)
    for name in ("pci-root", "pci"):
        shutil.rmtree(home / name, ignore_errors=True)
        (home / name).mkdir(parents=True)
    slots = range(int(values["gpu.count"]))
    for group in sorted({int(values[f"gpu{slot}.pcie_switch"]) for slot in slots}):
        members = [slot for slot in slots if int(values[f"gpu{slot}.pcie_switch"]) == group]
        _write_group(home, values, members)
    if int(values["nvswitch.count"]):
        _write_nvswitches(home, values)


def device_folder(host_root: Path, bus_id: str) -> Path:
    """Return the folder of a function, by its link. Raises FileNotFoundError where it is off the bus."""
    return (state.folder(host_root) / "pci" / bus_id).resolve(strict=True)


def gpu_function(values: Mapping[str, str], slot: int) -> Function:
    """Return the header of one GPU, with the link width that its state tells."""
    keys = dict(values)
    base = 0x2000_0000 + slot * 0x100_0000
    high = 0x200 + slot * 0x40
    return Function(
        vendor=0x10DE,
        device=int(state.get(keys, slot, "device_id"), 16),
        class_code=0x030200,
        port=ENDPOINT,
        prefetchable_mib=state.number(keys, slot, "bar1_mib"),
        subsystem=(0x10DE, int(state.get(keys, slot, "subsystem_id"), 16)),
        revision=0xA1,
        bars=(base, 0x0000_000C, high, 0x0000_000C, high + 0x30, 0),
        width=state.number(keys, slot, "link_width"),
    )


def write_function(place: Place, function: Function, driver: str = "") -> None:
    """Write the files of one function; existing files keep their inode."""
    place.folder.mkdir(parents=True, exist_ok=True)
    for name, text in _texts(place, function).items():
        (place.folder / name).write_text(f"{text}\n", encoding="ascii")
    (place.folder / "config").write_bytes(config_space(function))
    if driver and not (place.folder / "driver").is_symlink():
        _link_driver(place.folder, driver)


def _link_driver(folder: Path, driver: str) -> None:
    """Link to a folder that exists: lspci resolves the link, and the real one is not there."""
    top = next(parent for parent in folder.parents if parent.name == "pci-root")
    (top / "drivers" / driver).mkdir(parents=True, exist_ok=True)
    (folder / "driver").symlink_to(os.path.relpath(top / "drivers" / driver, folder))


def _texts(place: Place, function: Function) -> dict[str, str]:
    hard = "\n".join(f"{name} 0" for name in _AER_HARD)
    return {
        "vendor": f"{function.vendor:#06x}",
        "device": f"{function.device:#06x}",
        "subsystem_vendor": f"{function.subsystem[0]:#06x}",
        "subsystem_device": f"{function.subsystem[1]:#06x}",
        "class": f"{function.class_code:#08x}",
        "revision": f"{function.revision:#04x}",
        "numa_node": str(place.node),
        "local_cpulist": place.cpus,
        "enable": "1",
        "irq": "0",
        "resource": _resource(function),
        "current_link_speed": _SPEED,
        "max_link_speed": _SPEED,
        "current_link_width": str(function.width),
        "max_link_width": str(function.width_max),
        "aer_dev_correctable": "\n".join(f"{name} 0" for name in (*_AER, "TOTAL_ERR_COR")),
        "aer_dev_nonfatal": f"{hard}\nTOTAL_ERR_NONFATAL 0",
        "aer_dev_fatal": f"{hard}\nTOTAL_ERR_FATAL 0",
    }


def _resource(function: Function) -> str:
    empty = "0x0000000000000000 0x0000000000000000 0x0000000000000000"
    rows = [empty] * 7
    if function.bars:
        high = function.bars[2] << 32
        rows[0] = _range(function.bars[0], 16 * MIB, 0x40200)
        rows[1] = _range(high, function.prefetchable_mib * MIB, 0x14220C)
        rows[3] = _range(high + (0x30 << 32), 32 * MIB, 0x14220C)
    return "\n".join(rows)


def _range(start: int, size: int, flags: int) -> str:
    return f"0x{start:016x} 0x{start + size - 1:016x} 0x{flags:016x}"


def _write_group(home: Path, values: Mapping[str, str], members: list[int]) -> None:
    node = int(values[f"gpu{members[0]}.numa"])
    buses = [int(values[f"gpu{slot}.bus_id"][5:7], 16) for slot in members]
    switch = _write_switch(home, buses, min(buses) - 7, node, values[f"numa{node}.cpulist"])
    for port, slot in zip(switch, members, strict=True):
        place = Place(port.folder / values[f"gpu{slot}.bus_id"], node, port.cpus)
        write_function(place, gpu_function(values, slot), driver="nvidia")
        _link(home, place.folder)


def _write_nvswitches(home: Path, values: Mapping[str, str]) -> None:
    last = int(values["numa.nodes"]) - 1
    targets = sorted(
        {text for key, text in values.items() if key.startswith("gpu0.nvlink") and key.endswith("_to")}
    )
    buses = [int(text[5:7], 16) for text in targets]
    for port, bus_id in zip(
        _write_switch(home, buses, min(buses) - 8, last, values[f"numa{last}.cpulist"]), targets, strict=True
    ):
        place = Place(port.folder / bus_id, last, port.cpus)
        chip = Function(0x10DE, 0x1AF1, 0x068000, ENDPOINT, revision=0xA1, width=2, width_max=2)
        write_function(place, chip, driver="nvidia-nvswitch")
        _link(home, place.folder)


def _write_switch(home: Path, buses: list[int], root_bus: int, node: int, cpus: str) -> list[Place]:
    """Write host bridge, root port, upstream port and a downstream port per bus; return the latter."""
    top = home / "pci-root" / f"pci0000:{root_bus:02x}"
    last = max(buses)
    _write_bridge(home, Place(top / _bdf(root_bus, 0), node, cpus), Function(*_HOST_BRIDGE, port=ENDPOINT))
    root_port = Place(top / _bdf(root_bus, 1, 1), node, cpus)
    _write_bridge(home, root_port, Function(*_ROOT_PORT, ROOT_PORT, buses=(root_bus, root_bus + 1, last)))
    upstream = Place(root_port.folder / _bdf(root_bus + 1, 0), node, cpus)
    _write_bridge(home, upstream, Function(*_SWITCH, UPSTREAM, buses=(root_bus + 1, root_bus + 2, last)))
    ports = [Place(upstream.folder / _bdf(root_bus + 2, index), node, cpus) for index in range(len(buses))]
    for port, bus in zip(ports, buses, strict=True):
        _write_bridge(home, port, Function(*_SWITCH, DOWNSTREAM, buses=(root_bus + 2, bus, bus)))
    return ports


def _write_bridge(home: Path, place: Place, function: Function) -> None:
    write_function(place, function, driver="" if function.port == ENDPOINT else "pcieport")
    _link(home, place.folder)


def _bdf(bus: int, device: int, function: int = 0) -> str:
    return f"0000:{bus:02x}:{device:02x}.{function}"


def _link(home: Path, folder: Path) -> None:
    below = folder.relative_to(home)
    (home / "pci" / folder.name).symlink_to(Path("../../../..") / state.FOLDER / below)
