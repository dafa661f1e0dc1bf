"""NUMA: which processor each GPU hangs at."""

from __future__ import annotations

from collections.abc import Iterator

from qwenhost.checks.declare import Judgement, check, judged, note
from qwenhost.facts.numa import NodeMemory, NumaNodes
from qwenhost.facts.pci import PciDevice, PciDevices
from qwenhost.facts.topology import Topology
from qwenhost.records.finding import Verdict, by_firmware, by_hand

EVEN = 0.9
"""Least share of the largest node's memory: the kernel keeps a little of some nodes for itself."""


@check(
    "numa.nodes",
    remedy=by_hand("Compare the memory modules with those that were bought: dmidecode -t memory lists the slots."),
)
def nodes(nodes: NumaNodes, memory: NodeMemory | None, pci: PciDevices | None) -> Iterator[Judgement]:
    """Every NUMA node with CPUs has its share of memory, and the nodes of the GPUs are there.

    A node short of memory has lost a module, or never had it; its GPUs' buffers then lie at another socket.
    """
    behind = {device.numa_node for device in pci.gpus if device.numa_node is not None} if pci else set()
    for node in sorted(node for node in behind if node >= 0 and node not in nodes.cpus):
        yield Judgement(f"node {node}", Verdict.WARN, "not there, but GPUs hang at it", "a node of this host")
    if memory is None:
        yield note("host", f"{len(nodes.cpus)} nodes, their memory not seen")
        return
    sizes = {node: memory.kib.get(node) for node, cpus in nodes.cpus.items() if cpus}
    most = max((size for size in sizes.values() if size is not None), default=0)
    for node, size in sorted(sizes.items()):
        yield _share(node, size, most, bool(pci and pci.virtual))


def _share(node: int, size: int | None, most: int, virtual: bool) -> Judgement:
    if size is None:
        return Judgement(f"node {node}", Verdict.UNKNOWN, "memory not seen")
    subject, observed = f"node {node}", f"{size / (1 << 20):.1f} GiB" if size else "no memory"
    if size < EVEN * most and virtual:
        return note(subject, f"{observed}, as the hypervisor gave it")
    return judged(
        subject,
        size >= EVEN * most,
        observed=observed,
        expected=f"as much as other nodes, {most / (1 << 20):.1f} GiB",
        otherwise=Verdict.WARN,
    )


@check(
    "numa.affinity",
    remedy=by_firmware("Update the firmware or set its NUMA options: it does not tell where the GPU hangs."),
)
def affinity(pci: PciDevices | None, matrix: Topology | None, nodes: NumaNodes | None) -> Iterator[Judgement]:
    """Each GPU's NUMA node and its CPUs are known.

    Processes are pinned by it; on the wrong socket every copy between host and GPU crosses the link
    between sockets.
    """
    for device in pci.gpus if pci else ():
        if device.numa_node is not None:
            yield _node(device, device.numa_node, nodes, bool(pci and pci.virtual))
    if pci is None or all(device.numa_node is None for device in pci.gpus):
        for gpu in matrix.gpus if matrix else ():
            yield _printed(gpu, matrix)


def _node(device: PciDevice, node: int, nodes: NumaNodes | None, virtual: bool) -> Judgement:
    subject = f"gpu {device.bus_id}"
    if node >= 0:
        cpus = nodes.cpus.get(node) if nodes else None
        if cpus:
            return Judgement(subject, Verdict.PASS, f"node {node}, CPUs {cpus}")
        return note(subject, f"node {node}, CPUs not seen" if nodes is None else f"node {node} has no CPUs")
    several = nodes is not None and len(nodes.cpus) > 1
    if several and not virtual:
        return Judgement(subject, Verdict.FAIL, "node -1", "a node of this host")
    return note(subject, "node -1: one node, or a virtual machine")


def _printed(gpu: int, matrix: Topology | None) -> Judgement:
    node = matrix.numa.get(gpu) if matrix else None
    cpus = matrix.cpus.get(gpu) if matrix else None
    if cpus and node:
        return Judgement(f"gpu{gpu}", Verdict.PASS, f"node {node}, CPUs {cpus}")
    return note(f"gpu{gpu}", f"CPUs {cpus or 'not seen'}, node {node or 'not seen'}")
