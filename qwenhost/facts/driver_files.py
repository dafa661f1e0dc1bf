"""The distribution, and files that keep a driver in place: nouveau's blacklist, the daemon's unit, the source."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from qwenhost.facts.keyed import listing
from qwenhost.facts.registry import parses
from qwenhost.records.bundle import Capture
from qwenhost.records.source import tree

ANCHOR = "/usr/lib/os-release"
SOURCES = "/etc/apt/sources.list.d/qwenhost-driver.sources"
PERSISTENCED = "/etc/systemd/system/nvidia-persistenced.service.d/qwenhost.conf"

FILES = replace(
    tree("driver-files", SOURCES, "/etc/modprobe.d/*.conf", PERSISTENCED, "/lib/modprobe.d/*nvidia*", ANCHOR),
    looks_like=rf'\A\s*\{{\s*"(?:{SOURCES}|/etc/modprobe\.d/|{PERSISTENCED}|/lib/modprobe\.d/|{ANCHOR})',
)
"""ANCHOR is there on every host that systemd runs."""


@dataclass(frozen=True)
class DriverFiles:
    """`distribution`: ID and VERSION_ID, such as "ubuntu-24.04". `nouveau_off`: the line that keeps it off.

    `source`: the URI of our own package source, empty for none. `persistence_unit`: our drop-in is there.
    """

    distribution: str
    nouveau_off: str = ""
    source: str = ""
    persistence_unit: bool = False


@parses(FILES)
def driver_files(capture: Capture) -> DriverFiles:
    """Parse modprobe's configuration, os-release and our own files."""
    files = listing(capture, ANCHOR)
    modprobe = "\n".join(text for path, text in files.items() if "/modprobe.d/" in path)
    off = re.search(r"^\s*blacklist\s+nouveau\s*$", modprobe, re.MULTILINE)
    source = re.search(r"^URIs: *(\S+)", files.get(SOURCES, ""), re.MULTILINE)
    return DriverFiles(
        _distribution(files[ANCHOR]),
        off[0].strip() if off else "",
        source[1] if source else "",
        PERSISTENCED in files,
    )


def _distribution(release: str) -> str:
    """Return such as "debian-12"; os-release(5) writes values with and without quotes."""
    fields = dict(re.findall(r"^(ID|VERSION_ID)=[\"']?([^\"'\n]*)", release, re.MULTILINE))
    return f"{fields.get('ID', '')}-{fields.get('VERSION_ID', '')}"
