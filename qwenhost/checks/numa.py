"""NUMA: which processor each GPU hangs at."""

from __future__ import annotations

from collections.abc import Iterator

from qwenhost.checks.declare import Judgement, check, note
from qwenhost.facts.numa import NumaNodes
from qwenhost.facts.pci import PciDevice, PciDevices
from qwenhost.facts.topology import Topology
from qwenhost.records.finding import Verdict, by_firmware


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
