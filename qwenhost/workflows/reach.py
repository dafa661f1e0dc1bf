"""What cannot be set on a host, as it was seen: checks skip it with that reason, roles do not try."""

from __future__ import annotations

from collections.abc import Iterator

from qwenhost.checks.virtual import virtual
from qwenhost.facts.boot_loader import BootLoader
from qwenhost.facts.clock import Container
from qwenhost.facts.cpus import Governors, KernelArgs
from qwenhost.facts.gpus import Gpus
from qwenhost.facts.iommu import Iommu
from qwenhost.facts.mount_table import MountTable
from qwenhost.facts.pci import PciDevices
from qwenhost.facts.sysctl import Sysctl
from qwenhost.records.bundle import Bundle
from qwenhost.records.desired import Expectations
from qwenhost.workflows.observed import fact_of

KERNEL_ARGS = "kernel-args"

PLACES = {
    "transparent-hugepages": "/sys/kernel/mm/transparent_hugepage/enabled",
    "hugepages": "/sys/kernel/mm/hugepages",
    "governor": "/sys/devices/system/cpu",
}

FROM_PROFILE = "profiles/"
"""How the origin of a setting begins that nobody asked for by name."""


def out_of_reach(bundle: Bundle, want: Expectations) -> dict[str, str]:
    """Return kind of setting, or kind and key -> why it cannot be set; only what was seen counts."""
    found = (
        *_kernel_args(bundle),
        *_bare_metal(bundle, want),
        *_read_only(bundle, want),
        *_lacking(bundle, want),
        *_of_the_machine(bundle),
    )
    return dict(found)


def _read_only(bundle: Bundle, want: Expectations) -> Iterator[tuple[str, str]]:
    """Name what lies on a read-only mount, as in a container, whose machine sets it."""
    table = fact_of(bundle, MountTable)
    if table is None:
        return
    paths = {f"sysctl {setting.key}": f"/proc/sys/{setting.key.replace('.', '/')}" for setting in want.sysctl}
    for kind, path in {**PLACES, **paths}.items():
        if table.read_only(path):
            yield kind, "read-only here, as in a container: its machine sets it"


def _lacking(bundle: Bundle, want: Expectations) -> Iterator[tuple[str, str]]:
    """Name the profile's settings that this kernel has not; one that somebody declared by name is his mistake."""
    live = fact_of(bundle, Sysctl)
    for setting in want.sysctl if live and live.complete else ():
        if setting.origin.startswith(FROM_PROFILE) and setting.key not in (live.values if live else {}):
            yield f"sysctl {setting.key}", "this kernel has no such setting"


def _of_the_machine(bundle: Bundle) -> Iterator[tuple[str, str]]:
    """Name what a container or a virtual machine leaves to its machine."""
    container, governors = fact_of(bundle, Container), fact_of(bundle, Governors)
    if governors and not governors.cpus:
        yield "governor", "the kernel sets no frequency here, as in a virtual machine"
    if container and container.manager:
        yield "swap", f"{container.manager}: swap is its machine's"


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
