"""What cannot be set on a host, as it was seen: checks skip it with that reason, roles do not try."""

from __future__ import annotations

from collections.abc import Iterator

from qwenhost.checks.virtual import virtual
from qwenhost.facts.boot_loader import BootLoader
from qwenhost.facts.cpus import KernelArgs
from qwenhost.facts.gpus import Gpus
from qwenhost.facts.iommu import Iommu
from qwenhost.facts.pci import PciDevices
from qwenhost.records.bundle import Bundle
from qwenhost.records.desired import Expectations
from qwenhost.workflows.observed import fact_of

KERNEL_ARGS = "kernel-args"


def out_of_reach(bundle: Bundle, want: Expectations) -> dict[str, str]:
    """Return kind of setting, or kind and key -> why it cannot be set; only what was seen counts."""
    return dict((*_kernel_args(bundle), *_bare_metal(bundle, want)))


def _kernel_args(bundle: Bundle) -> Iterator[tuple[str, str]]:
    loader, args = fact_of(bundle, BootLoader), fact_of(bundle, KernelArgs)
    if loader and loader.missing:
        yield KERNEL_ARGS, f"GRUB does not write the boot entries of this host: no {loader.missing}"
    elif args and not any(arg.startswith("BOOT_IMAGE=") for arg in args.args):
        yield KERNEL_ARGS, "GRUB did not start this kernel: no BOOT_IMAGE= in /proc/cmdline"


def _bare_metal(bundle: Bundle, want: Expectations) -> Iterator[tuple[str, str]]:
    iommu = fact_of(bundle, Iommu)
    guest = virtual(fact_of(bundle, PciDevices), fact_of(bundle, Gpus), iommu)
    for setting in want.kernel_args:
        if setting.bare_metal and guest:
            yield f"{KERNEL_ARGS} {setting.key}", "a virtual machine: for bare metal only"
        elif setting.bare_metal and setting.key == "iommu" and iommu and iommu.on is False:
            yield f"{KERNEL_ARGS} {setting.key}", "no IOMMU is on"
