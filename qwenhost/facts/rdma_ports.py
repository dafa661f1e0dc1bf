"""Ports of HCAs (InfiniBand and RoCE): the kernel's files and what five tools print of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from qwenhost.facts.network import HCA, NETWORK
from qwenhost.facts.reading import plain
from qwenhost.facts.registry import filled, parses
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable
from qwenhost.records.source import recorded

IBSTAT = recorded("ibstat", looks_like=r"^CA '\S+'\s*$|^ib(?:panic|warn): ")
IBSTATUS = recorded("ibstatus", looks_like=r"^Infiniband device '\S+' port \d+ status:")
DEVINFO = recorded("ibv-devinfo", looks_like=r"^hca_id:\s+\S+|^No IB devices found|^Failed to get IB devices list")
RDMA_LINK = recorded("rdma-link", looks_like=r"^link \S+/\d+ .*\bstate [A-Z]+ physical_state ")
NETDEVS = recorded("ibdev2netdev", looks_like=r"^\S+ port \d+ ==> \S+ \((?:Up|Down)\)")

State = str


@dataclass(frozen=True)
class RdmaPort:
    """One port. `state`: active, armed, init or down; `physical`: linkup, polling, disabled, sleep and others.

    `model`: the HCA's type, such as MT4123. `drops`: how often its link went down since the driver was loaded.
    """

    device: str
    port: int
    state: State | None = None
    physical: State | None = None
    rate_gbit_per_s: float | None = None
    layer: str | None = None
    model: str | None = None
    drops: int | None = None

    @property
    def name(self) -> str:
        """As findings name it; the port only where it is not the first."""
        return self.device if self.port == 1 else f"{self.device}/{self.port}"


@dataclass(frozen=True)
class RdmaPorts:
    """All ports; `unreadable`: device -> what was said when it was asked. None of both: no HCA here."""

    ports: tuple[RdmaPort, ...] = ()
    unreadable: tuple[tuple[str, str], ...] = ()

    @property
    def any(self) -> bool:
        """Whether an HCA was seen at all."""
        return bool(self.ports or self.unreadable)

    def merge(self, other: RdmaPorts) -> RdmaPorts:
        """Join two views of the same ports."""
        known = {(port.device, port.port): port for port in self.ports}
        for port in other.ports:
            mine = known.get((port.device, port.port))
            known[port.device, port.port] = filled(mine, port) if mine else port
        unreadable = dict((*other.unreadable, *self.unreadable))
        return RdmaPorts(tuple(known.values()), tuple(unreadable.items()))


@parses(NETWORK)
def ports_from_files(capture: Capture) -> RdmaPorts:
    """Parse the kernel's files."""
    files: Mapping[str, str] = json.loads(capture.text)
    if not any(path.startswith("/sys/class/net/") for path in files):
        raise Unparsable("no network interface in it")
    places = (re.match(rf"{HCA}/([^/]+)/ports/(\d+)/state$", path) for path in files)
    ports = tuple(_from_files(files, place[1], int(place[2])) for place in places if place)
    failed = (re.match(rf"{HCA}/([^/]+)/.*!$", path) for path in files)
    return RdmaPorts(ports, tuple({match[1]: files[match[0]] for match in failed if match}.items()))


def _from_files(files: Mapping[str, str], device: str, port: int) -> RdmaPort:
    below = f"{HCA}/{device}/ports/{port}"
    drops = files.get(f"{below}/counters/link_downed", "").strip()
    return RdmaPort(
        device,
        port,
        state=_state(files.get(f"{below}/state")),
        physical=_state(files.get(f"{below}/phys_state")),
        rate_gbit_per_s=_rate(files.get(f"{below}/rate")),
        layer=files.get(f"{below}/link_layer", "").strip() or None,
        model=files.get(f"{HCA}/{device}/hca_type", "").strip() or None,
        drops=int(drops) if drops.isdigit() else None,
    )


@parses(IBSTAT, trust=1)
def ports_from_ibstat(capture: Capture) -> RdmaPorts:
    """Parse `ibstat`, whole or broken off."""
    text = plain(capture.text)
    blocks = re.split(r"^(?=CA ')", text, flags=re.MULTILINE)
    ports = [port for block in blocks for port in _from_ibstat(block)]
    return _some(ports, _complaints(text))


def _from_ibstat(block: str) -> Iterator[RdmaPort]:
    head = re.match(r"CA '(\S+)'", block)
    model = re.search(r"^\s+CA type: (\S+)", block, re.MULTILINE)
    for part in re.split(r"^(?=\s+Port \d+:\s*$)", block, flags=re.MULTILINE)[1:] if head else ():
        number = re.match(r"\s+Port (\d+):", part)
        values = _values(part)
        if head and number and "state" in values:
            yield _port(head[1], int(number[1]), values, values.get("physical state"), model[1] if model else None)


@parses(IBSTATUS, trust=1)
def ports_from_ibstatus(capture: Capture) -> RdmaPorts:
    """Parse `ibstatus`."""
    blocks = re.split(r"^(?=Infiniband device ')", plain(capture.text), flags=re.MULTILINE)
    heads = (
        (re.match(r"Infiniband device '(\S+)' port (\d+) status:", block), _values(block)) for block in blocks
    )
    return _some(
        [_port(head[1], int(head[2]), values, values.get("phys state")) for head, values in heads if head]
    )


@parses(DEVINFO, trust=1)
def ports_from_devinfo(capture: Capture) -> RdmaPorts:
    """Parse `ibv_devinfo`, with or without -v."""
    text = plain(capture.text)
    if re.search(r"^No IB devices found", text, re.MULTILINE):
        return RdmaPorts()
    failed = re.search(r"^Failed to get IB devices list.*", text, re.MULTILINE)
    blocks = re.split(r"^(?=hca_id:)", text, flags=re.MULTILINE)
    ports = [port for block in blocks for port in _from_devinfo(block)]
    return _some(ports, {"HCAs": failed[0]} if failed else {})


def _from_devinfo(block: str) -> Iterator[RdmaPort]:
    head = re.match(r"hca_id:\s+(\S+)", block)
    part_id = re.search(r"vendor_part_id:\s+(\d+)", block)
    for part in re.split(r"^(?=\s+port:\s+\d)", block, flags=re.MULTILINE)[1:] if head else ():
        values = _values(part)
        if head:
            model = f"MT{part_id[1]}" if part_id else None
            yield _port(head[1], int(values["port"]), values, values.get("phys_state"), model)


@parses(RDMA_LINK, trust=1)
def ports_from_rdma(capture: Capture) -> RdmaPorts:
    """Parse `rdma link`; the last line of a port holds."""
    found = re.finditer(
        r"^link (\S+)/(\d+) .*?\bstate (\w+) physical_state (\w+)", plain(capture.text), re.MULTILINE
    )
    ports = {
        (line[1], line[2]): RdmaPort(line[1], int(line[2]), _state(line[3]), _state(line[4])) for line in found
    }
    return _some(ports.values())


@parses(NETDEVS, trust=2)
def ports_from_netdevs(capture: Capture) -> RdmaPorts:
    """Parse `ibdev2netdev`, which tells whether the interface is up."""
    found = re.finditer(r"^(\S+) port (\d+) ==> (\S+) \((Up|Down)\)", plain(capture.text), re.MULTILINE)
    states = {"Up": "active", "Down": "down"}
    return _some(
        RdmaPort(
            line[1], int(line[2]), states[line[4]], layer="InfiniBand" if line[3].startswith("ib") else "Ethernet"
        )
        for line in found
    )


def _some(ports: Iterable[RdmaPort], unreadable: Mapping[str, str] | None = None) -> RdmaPorts:
    found = RdmaPorts(tuple(ports), tuple((unreadable or {}).items()))
    if not found.any:
        raise Unparsable("no port of an HCA in it")
    return found


def _values(text: str) -> dict[str, str]:
    return {
        key.lower(): value
        for key, value in re.findall(r"^[ \t]+(\w[\w ]*?):[ \t]+(\S.*?)[ \t]*$", text, re.MULTILINE)
    }


def _port(
    device: str, port: int, values: Mapping[str, str], physical: str | None, model: str | None = None
) -> RdmaPort:
    layer = values.get("link layer") or values.get("link_layer")
    state, rate = _state(values.get("state")), _rate(values.get("rate"))
    return RdmaPort(device, port, state, _state(physical), rate, layer, model)


def _state(text: str | None) -> State | None:
    """Return a state as one word: 4: ACTIVE, PORT_ACTIVE (4) and Active are all active."""
    word = re.sub(r"[^a-z]", "", (text or "").lower().replace("port_", ""))
    return "init" if word.startswith("init") else word or None


def _rate(text: str | None) -> float | None:
    found = re.match(r"[\d.]+", text or "")
    return float(found[0]) if found else None


_COMPLAINT = re.compile(r"^ib(?:panic|warn): .*$", re.MULTILINE)


def _complaints(text: str) -> dict[str, str]:
    """Return device -> complaint of the tool."""
    lines = [found[0].strip() for found in _COMPLAINT.finditer(text)]
    named = ((re.search(r"'?\b((?:mlx|ib|hfi|bnxt|irdma|qed|roce|rdma)\w*\d)\b'?", line), line) for line in lines)
    return {name[1] if name else "HCAs": line for name, line in named}
