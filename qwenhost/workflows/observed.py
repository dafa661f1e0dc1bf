"""What has to be known of a host before its expectations can be told: its boards, nodes and counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from qwenhost.expectations.driver_settings import BuildKernel, DriverPlace
from qwenhost.expectations.settings import Placement
from qwenhost.facts import registry
from qwenhost.facts.driver_files import DriverFiles
from qwenhost.facts.gpus import Gpus
from qwenhost.facts.kernels import InstalledKernels, RunningKernel
from qwenhost.facts.mig import MigInstances
from qwenhost.facts.numa import NumaNodes
from qwenhost.facts.pci import PciDevices
from qwenhost.facts.sysctl import Sysctl
from qwenhost.records.bundle import Bundle

Fact = TypeVar("Fact")


def pci_device_ids(bundle: Bundle) -> tuple[str, ...]:
    """Return the PCI device ids of the GPUs, once each, as the driver or the bus tells them."""
    gpus, devices = fact_of(bundle, Gpus), fact_of(bundle, PciDevices)
    by_driver = [gpu.device_id for gpu in gpus.gpus] if gpus else []
    on_bus = [device.device for device in devices.gpus] if devices else []
    return tuple(dict.fromkeys(found for found in (*by_driver, *on_bus) if found))


def numa_nodes(bundle: Bundle) -> tuple[int, ...]:
    """Return the nodes that have CPUs; memory of others is no place for huge pages of a service."""
    nodes = fact_of(bundle, NumaNodes)
    return tuple(sorted(node for node, cpus in nodes.cpus.items() if cpus)) if nodes else ()


def gpu_count(bundle: Bundle) -> int:
    """Return how many GPUs the driver lists, 0 when it does not tell."""
    gpus = fact_of(bundle, Gpus)
    return gpus.listed if gpus else 0


def sysctl(bundle: Bundle) -> Mapping[str, str]:
    """Return the kernel settings as they are now, as far as they were seen."""
    settings = fact_of(bundle, Sysctl)
    return settings.values if settings else {}


def placement(bundle: Bundle) -> Placement:
    """Return where GPUs, CPUs and MIG devices are."""
    nodes, partitions = fact_of(bundle, NumaNodes), fact_of(bundle, MigInstances)
    uuids: dict[int, list[str]] = {}
    for device in sorted(partitions.devices, key=lambda device: device.position) if partitions else ():
        uuids.setdefault(device.gpu, []).append(device.uuid or "")
    return Placement(_node_of_gpu(bundle), dict(nodes.cpus) if nodes else {}, uuids)


def _node_of_gpu(bundle: Bundle) -> dict[int, int]:
    """Return GPU index -> NUMA node, from the driver or from the GPU's place on the bus."""
    gpus, devices = fact_of(bundle, Gpus), fact_of(bundle, PciDevices)
    found: dict[int, int] = {}
    for gpu in gpus.gpus if gpus else ():
        device = devices.at(gpu.bus_id) if devices else None
        node = gpu.numa_node if gpu.numa_node is not None else device.numa_node if device else None
        if gpu.index is not None and node is not None:
            found[gpu.index] = node
    return found


def driver_place(bundle: Bundle) -> DriverPlace:
    """Return what a driver's packages depend on."""
    files, devices = fact_of(bundle, DriverFiles), fact_of(bundle, PciDevices)
    return DriverPlace(
        files.distribution if files else "", bool(devices and devices.switches), _build_kernels(bundle)
    )


def _build_kernels(bundle: Bundle) -> tuple[BuildKernel, ...]:
    """Return the kernel that runs and the one that boots next, those of them that are installed here."""
    installed, running = fact_of(bundle, InstalledKernels), fact_of(bundle, RunningKernel)
    if installed is None or running is None:
        return ()
    found = (installed.of(running.release), installed.next_boot(running.release))
    bootable = {kernel.release: kernel for kernel in found if kernel and kernel.bootable}
    return tuple(BuildKernel(kernel.release, kernel.headers) for kernel in bootable.values())


def fact_of(bundle: Bundle, fact: type[Fact]) -> Fact | None:
    """Return a fact, None when it was not seen."""
    answer = registry.read(bundle, fact)
    return answer.fact if isinstance(answer, registry.Seen) else None
