"""What the role host_tuning left to be set at each boot, beside sysctl: our unit's configuration, and THP."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from qwenhost.facts.keyed import listing
from qwenhost.facts.registry import parses
from qwenhost.records.bundle import Capture
from qwenhost.records.source import tree

ANCHOR = "/proc/version"
CONFIG = "/etc/qwenhost/tuning.json"
UNIT = "/etc/systemd/system/qwenhost-tuning.service"
WANTED = "/etc/systemd/system/multi-user.target.wants/qwenhost-tuning.service"
PAGES = "/etc/tmpfiles.d/qwenhost-transparent-hugepages.conf"

FILES = tree("tuned-at-boot", ANCHOR, CONFIG, UNIT, WANTED, PAGES)

_MODE = re.compile(r"^w\s+/sys/kernel/mm/transparent_hugepage/enabled(?:\s+-){4}\s+(\w+)\s*$", re.MULTILINE)


@dataclass(frozen=True)
class TunedAtBoot:
    """`runs`: our unit is there and wanted. Empty, 0 or false: nothing is set.

    `pools`: (node, page size in KiB) -> pages.
    """

    runs: bool = False
    transparent_hugepages: str = ""
    governor: str = ""
    swap_off: bool = False
    shm_bytes: int = 0
    pools: Mapping[tuple[int, int], int] = field(default_factory=dict)


@parses(FILES)
def tuned_at_boot(capture: Capture) -> TunedAtBoot:
    """Parse our files, of which none need be there."""
    files = listing(capture, ANCHOR)
    raw: dict[str, Any] = json.loads(files.get(CONFIG, "{}"))
    mode = _MODE.search(files.get(PAGES, ""))
    return TunedAtBoot(
        runs=UNIT in files and WANTED in files,
        transparent_hugepages=mode[1] if mode else "",
        governor=raw.get("governor", {}).get("governor", ""),
        swap_off="swap" in raw,
        shm_bytes=raw.get("shm", {}).get("size_bytes", 0),
        pools={
            (pool["node"], pool["size_kib"]): pool["pages"] for pool in raw.get("hugepages", {}).get("pools", [])
        },
    )
