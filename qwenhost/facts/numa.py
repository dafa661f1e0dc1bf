"""NUMA nodes of the host and the CPUs of each."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from qwenhost.facts.registry import parses
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable
from qwenhost.records.source import tree

NODES = replace(
    tree("numa-nodes", "/sys/devices/system/node/node*/cpulist"),
    looks_like=r'\A\s*\{\s*"/sys/devices/system/node/node\d+/cpulist"',
)


@dataclass(frozen=True)
class NumaNodes:
    """Node number -> CPU list as the kernel prints it, such as "0-31,64-95"; empty for a node without
    CPUs.
    """

    cpus: Mapping[int, str]


@parses(NODES)
def numa_nodes(capture: Capture) -> NumaNodes:
    """Parse the kernel's node files."""
    files = json.loads(capture.text)
    nodes = {
        int(found[1]): content.strip()
        for path, content in files.items()
        if (found := re.fullmatch(r".*/node(\d+)/cpulist", path))
    }
    if not nodes:
        raise Unparsable("no NUMA node in it")
    return NumaNodes(nodes)
