"""Whether a host is a virtual machine, where the hypervisor decides what is seen of the hardware."""

from __future__ import annotations

from qwenhost.facts.gpus import Gpus
from qwenhost.facts.iommu import Iommu
from qwenhost.facts.pci import PciDevices


def virtual(pci: PciDevices | None, gpus: Gpus | None, iommu: Iommu | None) -> bool:
    """Tell whether the bus, the driver or the kernel shows a hypervisor."""
    return bool((pci and pci.virtual) or (gpus and gpus.virtual) or (iommu and iommu.hypervisor))
