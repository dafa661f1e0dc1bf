"""NUMA nodes of the host and the CPUs of each."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from qwenhost.facts.keyed import matching
from qwenhost.facts.registry import parses
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable
from qwenhost.records.source import recorded, tree

NODES = replace(
    tree("numa-nodes", "/sys/devices/system/node/node*/cpulist"),
    looks_like=r'\A\s*\{\s*"/sys/devices/system/node/node\d+/cpulist"',
)

MEMORY = replace(
    tree("numa-memory", "/sys/devices/system/node/node*/meminfo"),
    looks_like=r'\A\s*\{\s*"/sys/devices/system/node/node\d+/meminfo"',
)
LSCPU = recorded("lscpu", looks_like=r"^\s*NUMA node\d+ CPU\(s\):")
NUMACTL = recorded("numactl", looks_like=r"^available: \d+ nodes? \(")


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


@parses(LSCPU, trust=1)
def from_lscpu(capture: Capture) -> NumaNodes:
    """Parse `lscpu`."""
    return _some(re.findall(r"^\s*NUMA node(\d+) CPU\(s\):[ \t]*(\S*)", capture.text, re.MULTILINE))


@parses(NUMACTL, trust=1)
def from_numactl(capture: Capture) -> NumaNodes:
    """Parse `numactl -H`."""
    rows = re.findall(r"^node (\d+) cpus:[ \t]*(.*?)\s*$", capture.text, re.MULTILINE)
    return _some([(node, cpus.replace(" ", ",")) for node, cpus in rows])


def _some(rows: list[tuple[str, str]]) -> NumaNodes:
    if not rows:
        raise Unparsable("no NUMA node in it")
    return NumaNodes({int(node): cpus for node, cpus in rows})


@dataclass(frozen=True)
class NodeMemory:
    """Node number -> memory in KiB; 0 for a node without memory."""

    kib: Mapping[int, int]


@parses(MEMORY)
def node_memory(capture: Capture) -> NodeMemory:
    """Parse the kernel's node files."""
    files = matching(capture, r".*/node(\d+)/meminfo")
    return _memory(
        [(path[1], size[1]) for path, text in files if (size := re.search(r"MemTotal:\s+(\d+) kB", text))]
    )


@parses(NUMACTL, trust=1)
def memory_from_numactl(capture: Capture) -> NodeMemory:
    """Parse `numactl -H`, which prints MiB."""
    rows = re.findall(r"^node (\d+) size: (\d+) MB", capture.text, re.MULTILINE)
    return _memory([(node, f"{int(size) << 10}") for node, size in rows])


def _memory(rows: list[tuple[str, str]]) -> NodeMemory:
    if not rows:
        raise Unparsable("no memory of a node in it")
    return NodeMemory({int(node): int(size) for node, size in rows})
