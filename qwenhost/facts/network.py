"""Network interfaces and HCAs as the kernel lists them; interfaces are parsed here."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace

from qwenhost.facts.registry import parses
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable
from qwenhost.records.source import recorded, tree

HCA = "/sys/class/infiniband"

NETWORK = replace(
    tree(
        "network",
        "/sys/class/net/*/operstate",
        *(f"{HCA}/*/{name}" for name in ("fw_ver", "hca_type")),
        *(f"{HCA}/*/ports/*/{name}" for name in ("state", "phys_state", "rate", "link_layer")),
        f"{HCA}/*/ports/*/counters/link_downed",
    ),
    looks_like=r'"/sys/class/(?:net|infiniband)/',
)
"""The loopback interface is there on every host: with it alone, there is no HCA."""

ADDRESSES = recorded("ip-addresses", looks_like=r"^\d+: lo: <LOOPBACK|^lo: flags=\d+<|^lo +(?:UNKNOWN|UP) ")


@dataclass(frozen=True)
class NetInterfaces:
    """Names of the interfaces, such as lo and ens3f0."""

    names: tuple[str, ...]


@parses(NETWORK)
def interfaces(capture: Capture) -> NetInterfaces:
    """Parse the kernel's files."""
    found = (re.match(r"/sys/class/net/([^/]+)/operstate", path) for path in json.loads(capture.text))
    return _some([match[1] for match in found if match])


@parses(ADDRESSES, trust=1)
def interfaces_of_tools(capture: Capture) -> NetInterfaces:
    """Parse `ip addr`, `ip link`, `ip -br addr` or `ifconfig -a`."""
    return _some(
        re.findall(r"^(?:\d+: )?([\w.-]+)(?:@\S+)?(?:: <|: flags=| +(?:UNKNOWN|UP|DOWN) )", capture.text, re.M)
    )


def _some(names: list[str]) -> NetInterfaces:
    if "lo" not in names:
        raise Unparsable("no interface in it")
    return NetInterfaces(tuple(dict.fromkeys(names)))
