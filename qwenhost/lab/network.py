"""The lab's network: a bridge in its own namespace, one namespace per host, one interface in the machine's.

The machine's settings are not touched: nothing is forwarded out of the lab, and no address is translated.
The bridge's namespace is the hosts' gateway; it has no route onwards, so that what is not in the lab fails at
once instead of after a time-out.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from qwenhost.lab.commands import run, succeeds
from qwenhost.lab.layout import PREFIX_LENGTH, Lab, LabHost
from qwenhost.records.errors import QwenhostError

NAMESPACES = Path("/run/netns")


def raise_network(lab: Lab) -> None:
    """Make what is missing of the bridge and of the machine's interface."""
    if not exists(lab.netns):
        _add_bridge(lab)
    if not _there(f"link show {lab.interface}"):
        _ip(f"link add {lab.interface} type veth peer name uplink netns {lab.netns}")
        _ip(f"-n {lab.netns} link set uplink master br0 up")
        _ip(f"addr add {lab.machine_address}/{PREFIX_LENGTH} dev {lab.interface}")
        _ip(f"link set {lab.interface} up")


def lower_network(lab: Lab) -> None:
    """Remove the bridge, its namespace and the machine's interface."""
    if _there(f"link show {lab.interface}"):
        _ip(f"link del {lab.interface}")
    if exists(lab.netns):
        _ip(f"netns del {lab.netns}")


def connect(host: LabHost) -> None:
    """Give the host its namespace, with `eth0` on the bridge."""
    own, bridge = host.machine, host.lab.netns
    _ip(f"netns add {own}")
    _ip(f"-n {bridge} link add {host.name} type veth peer name eth0 address {host.mac} netns {own}")
    _ip(f"-n {bridge} link set {host.name} master br0 up")
    _ip(f"-n {own} link set lo up")
    _ip(f"-n {own} addr add {host.address}/{PREFIX_LENGTH} dev eth0")
    _ip(f"-n {own} link set eth0 up")
    _ip(f"-n {own} route add default via {host.lab.gateway_address}")


def disconnect(host: LabHost) -> None:
    """Remove the host's namespace and its port on the bridge."""
    if exists(host.lab.netns) and _there(f"-n {host.lab.netns} link show {host.name}"):
        _ip(f"-n {host.lab.netns} link del {host.name}")
    if exists(host.machine):
        _ip(f"netns del {host.machine}")


def exists(netns: str) -> bool:
    """Whether a network namespace of this name is there."""
    return (NAMESPACES / netns).exists()


def namespaces(lab: Lab) -> list[str]:
    """All namespaces of the lab, its hosts' too."""
    return sorted(path.name for path in NAMESPACES.glob(f"{lab.name}-*"))


def refuse_overlap(lab: Lab) -> None:
    """Raise QwenhostError when an address or route that is not the lab's overlaps its range."""
    addresses = json.loads(_ip("-j -4 addr"))
    routes = json.loads(_ip("-j -4 route show table all"))
    for network, device in overlapping(lab.network, [*_addressed(addresses), *_routed(routes)]):
        if device != lab.interface:
            raise QwenhostError(
                f"{lab.network} is in use on this machine: {network} on {device}",
                hint="give the lab another name (--name): its addresses follow from it",
            )


def overlapping(range_: str, taken: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Those of (network, interface) that overlap a lab's range; a default route does not count."""
    lab = ipaddress.ip_network(range_)
    for network, device in taken:
        parsed = ipaddress.ip_network(network, strict=False)
        if parsed.prefixlen and parsed.overlaps(lab):
            yield network, device


def _addressed(links: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    for link in links:
        for address in link.get("addr_info", ()):
            yield f"{address['local']}/{address['prefixlen']}", link["ifname"]


def _routed(routes: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    for route in routes:
        if route["dst"] != "default":
            yield route["dst"], route.get("dev", "no interface")


def _ip(arguments: str) -> str:
    return run("ip", *arguments.split())


def _there(arguments: str) -> bool:
    return succeeds("ip", *arguments.split())


def _add_bridge(lab: Lab) -> None:
    netns = lab.netns
    _ip(f"netns add {netns}")
    _ip(f"-n {netns} link set lo up")
    _ip(f"-n {netns} link add br0 type bridge")
    _ip(f"-n {netns} addr add {lab.gateway_address}/{PREFIX_LENGTH} dev br0")
    _ip(f"-n {netns} link set br0 up")
    # So that the gateway answers "unreachable"; the setting belongs to this namespace alone.
    run("ip", "netns", "exec", netns, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
