"""Kernel settings: as they are now, and as configuration files ask for them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from qwenhost.facts.keyed import matching
from qwenhost.facts.registry import parses
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable
from qwenhost.records.source import recorded, tree

LIVE = tree(
    "sysctl",
    "/proc/sys/net/core/*",
    "/proc/sys/net/ipv4/tcp_*",
    "/proc/sys/net/ipv4/neigh/default/gc_*",
    "/proc/sys/vm/*",
    "/proc/sys/kernel/numa_balancing",
    "/proc/sys/kernel/shm*",
    "/proc/sys/fs/file-*",
    "/proc/sys/fs/nr_open",
)
TEXT = recorded("sysctl-text", looks_like=r"^\s*(?:net|vm|kernel|fs)(?:\.[\w-]+)+\s*=\s*\S")

LINE = re.compile(
    r"^\s*(?P<key>(?:net|vm|kernel|fs|user|dev)(?:[./][\w-]+)+)\s*=\s*(?P<value>\S.*?)\s*$", re.MULTILINE
)


@dataclass(frozen=True)
class Sysctl:
    """Key in dotted form -> value as it stands."""

    values: Mapping[str, str]

    def merge(self, other: Sysctl) -> Sysctl:
        """Add what only the other view has."""
        return Sysctl({**other.values, **self.values})


@parses(LIVE)
def live(capture: Capture) -> Sysctl:
    """Parse files below /proc/sys."""
    found = {match[1].replace("/", "."): content for match, content in matching(capture, r"/proc/sys/(.+?)")}
    return _some({key: content for key, content in found.items() if not key.endswith(("@", "!"))})


@parses(TEXT, trust=1)
def text(capture: Capture) -> Sysctl:
    """Parse `key = value` lines, of `sysctl -a` or of a configuration file."""
    return _some({match["key"].replace("/", "."): match["value"] for match in LINE.finditer(capture.text)})


def _some(values: Mapping[str, str]) -> Sysctl:
    if not values:
        raise Unparsable("no setting in it")
    return Sysctl(values)
