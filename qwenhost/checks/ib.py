"""InfiniBand and RoCE: ports that are up, HCAs that can be asked, links that stay up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from qwenhost.checks.declare import Judgement, check, judged, note, skip
from qwenhost.expectations.rdma import PATH, rdma_limits
from qwenhost.facts.link_flaps import Drop, LinkFlaps
from qwenhost.facts.pci import PciDevice, PciDevices
from qwenhost.facts.rdma_ports import RdmaPort, RdmaPorts
from qwenhost.records.finding import Verdict, by_hand, by_hardware

HOST = "host"

NO_HCA = "no HCA in this host"

ETHERNET = "Ethernet"


@check(
    "ib.ports",
    remedy=by_hardware(
        "Look at cable and switch port (mlxlink -d DEVICE); a port that was switched off: mlxlink -a UP."
    ),
)
def ports(ports: RdmaPorts) -> Iterator[Judgement]:
    """Each port that its sisters use is up, at their rate.

    NCCL leaves out a port that is down: traffic between hosts gets slower by its share, and a GPU next to
    it goes through another socket. Ethernet ports are often unused: one is told only as a note where no
    port like it is up.
    """
    if not ports.any:
        yield skip(HOST, NO_HCA)
    for port in ports.ports:
        if port.state is not None:
            yield _port(port, ports)


def _port(port: RdmaPort, ports: RdmaPorts) -> Judgement:
    sisters = [other for other in ports.ports if _alike(port, other)]
    subject = f"{port.name} ({port.layer})" if port.layer else port.name
    if port.state == "active":
        return _rate(subject, port, sisters)
    used = port.layer != ETHERNET or any(other.state == "active" for other in sisters)
    physical = f", {port.physical}" if port.physical and port.physical != "linkup" else ""
    told = f"{port.state}{physical}"
    if port.state == "init":
        told += ": no subnet manager has configured it"
    return Judgement(subject, Verdict.WARN if used else Verdict.NOTE, told, "active")


def _alike(one: RdmaPort, other: RdmaPort) -> bool:
    return one is not other and one.layer == other.layer and one.model == other.model


def _rate(subject: str, port: RdmaPort, sisters: list[RdmaPort]) -> Judgement:
    """Judge the rate by what most ports of this kind have; two that differ tell nothing."""
    rates = Counter(other.rate_gbit_per_s for other in (port, *sisters) if other.rate_gbit_per_s)
    rate = port.rate_gbit_per_s
    if rate is None or len(rates) < 2:
        return Judgement(subject, Verdict.PASS, f"active, {rate:g} Gbit/s" if rate else "active")
    usual, times = rates.most_common(1)[0]
    slow = usual is not None and rate < usual and times * 2 > rates.total() and port.layer != ETHERNET
    return judged(
        subject,
        not slow,
        observed=f"active, {rate:g} Gbit/s",
        expected=f"{usual:g} Gbit/s, as its sisters" if slow else "",
        otherwise=Verdict.WARN,
    )


@check(
    "ib.readable",
    remedy=by_hand(
        "Look for the HCA's own lines in dmesg, then load its driver: modprobe mlx5_ib, systemctl restart openibd."
    ),
)
def readable(ports: RdmaPorts | None, pci: PciDevices | None) -> Iterator[Judgement]:
    """Each HCA on the bus can be asked about its ports.

    One that cannot be asked is neither up nor down for the tools: they stop there, and those behind it in
    the list are not told at all.
    """
    for device, why in ports.unreadable if ports else ():
        yield note(device, "could not be read", expected="readable", evidence=why)
    adapters = [device for device in pci.devices if _is_hca(device)] if pci else []
    if ports and ports.ports:
        names = {port.device for port in ports.ports}
        yield Judgement(HOST, Verdict.PASS, f"{len(names)} HCAs tell of their ports")
    elif ports and not ports.any and adapters:
        expected = "an HCA that the kernel knows"
        yield Judgement(adapters[0].bus_id, Verdict.WARN, "an HCA on the bus without a driver", expected)
    elif ports and not ports.any:
        yield skip(HOST, NO_HCA)


def _is_hca(device: PciDevice) -> bool:
    """Tell whether it is an InfiniBand controller (class 0207)."""
    return device.class_code == "0207"


@check(
    "ib.flapping",
    remedy=by_hardware(
        "Clean and reseat the cable of that port, then swap it; if it goes on, swap the switch port."
    ),
)
def flapping(flaps: LinkFlaps | None, ports: RdmaPorts | None) -> Iterator[Judgement]:
    """No port of an HCA loses its link again and again.

    Each drop ends the collective that is under way: jobs over several hosts hang until a timeout, and then
    start anew.
    """
    drops = {name: _late(seen) for name, seen in flaps.drops.items()} if flaps else {}
    for name, line in flaps.in_use.items() if flaps else ():
        yield Judgement(name, Verdict.WARN, "failed while NCCL used it", "a link that stays up", evidence=line)
    for name, seen in drops.items():
        if seen and name not in (flaps.in_use if flaps else ()):
            yield _logged(name, seen, ports)
    counted = [port for port in ports.ports if port.drops is not None] if ports else []
    yield from (_counted(port) for port in counted)
    if ports and not ports.any and not any(drops.values()):
        yield skip(HOST, NO_HCA)
    elif ports and ports.ports and flaps and not counted and not any(drops.values()) and not flaps.in_use:
        yield Judgement(HOST, Verdict.PASS, "no port went down")


def _late(seen: tuple[Drop, ...]) -> tuple[Drop, ...]:
    """Leave out what happens while a host starts."""
    limit = rdma_limits().starting_seconds
    return tuple(drop for drop in seen if drop.seconds is None or drop.seconds > limit)


def _logged(name: str, seen: tuple[Drop, ...], ports: RdmaPorts | None) -> Judgement:
    caught = any(drop.line.startswith("link ") for drop in seen)
    many = len(seen) >= rdma_limits().drops_logged or caught
    return Judgement(
        name,
        Verdict.WARN if many else Verdict.NOTE,
        f"went down {len(seen)} times" if len(seen) > 1 else "went down once",
        "a link that stays up",
        evidence=seen[-1].line,
        origin=f"data/{PATH}: drops_logged",
    )


def _counted(port: RdmaPort) -> Judgement:
    drops = port.drops or 0
    return judged(
        port.name,
        drops < rdma_limits().drops_counted,
        observed=f"{drops} drops since the driver was loaded",
        expected=f"fewer than {rdma_limits().drops_counted}",
        otherwise=Verdict.WARN,
        origin=f"data/{PATH}: drops_counted",
    )
